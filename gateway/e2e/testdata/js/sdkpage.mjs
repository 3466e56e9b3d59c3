// Has a page tell pages/sdk.mjs; a page from elsewhere is not let in.
import assert from "node:assert/strict";
import { browse } from "./browser.mjs";

await browse(async (page) => {
  await page.goto(process.env.STORY_PAGE);
  await page.waitForFunction("globalThis.tell");
  await page.evaluate((said) => globalThis.tell(said), {
    connection: process.env.STORY_CONNECTION, token: process.env.STORY_TOKEN,
    queue: process.env.STORY_QUEUE, sessions: process.env.STORY_SESSIONS,
  });

  const elsewhere = new URL(process.env.STORY_PAGE);
  elsewhere.hostname = "elsewhere.localhost"; // the same page, of an origin that nobody listed
  await page.goto(elsewhere.href);
  const refused = page.waitForEvent("console", (line) => line.text().includes("Unexpected response code: 403"));
  const code = await page.evaluate((address) => new Promise((resolve) => {
    const socket = new WebSocket(address, "AMQPWSB10");
    socket.onclose = (event) => resolve(event.code);
  }), `wss://${process.env.STORY_GATEWAY}/$servicebus/websocket`);
  assert.equal(code, 1006);
  await refused;
});
console.log("told");
