// The client for pages and Node, as the gateway serves it.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";

const answer = await fetch(`http://${process.env.STORY_GATEWAY}/client/crosstown.js`);
assert.equal(answer.headers.get("content-type"), "text/javascript; charset=utf-8");
const file = new URL(`crosstown-${process.pid}.mjs`, import.meta.url);
await writeFile(file, await answer.text());
export const { Crosstown, Value } = await import(file);
