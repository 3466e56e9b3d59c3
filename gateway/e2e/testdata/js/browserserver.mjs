// Runs a headless Chromium for stories, and prints the address at which they reach it
// (STORY_BROWSER). The browser ends with the standard input, and so with the tests.
// The first page of a browser takes long on a busy machine, so one is opened before
// the address is printed.
import { chromium } from "playwright-core";
import { launching } from "./browser.mjs";

const server = await chromium.launchServer(launching);
const first = await chromium.connect(server.wsEndpoint());
await (await first.newPage()).goto("data:text/html,first", { timeout: launching.timeout });
await first.close();
console.log(server.wsEndpoint());
process.stdin.on("end", () => server.close()).resume();
