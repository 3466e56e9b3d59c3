// Has a page tell pages/client.mjs, and breaks its connection meanwhile.
import assert from "node:assert/strict";
import { browse } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";

const { STORY_GATEWAY: gateway, STORY_CONNECTION: connection, STORY_QUEUE: queue, STORY_PAGE: address } = process.env;
const count = 100;

const proxy = await startProxy(gateway);
await browse(async (page) => {
  await page.exposeFunction("cut", proxy.cut);
  await page.goto(address);
  await page.waitForFunction("globalThis.tell");
  const told = await page.evaluate((said) => globalThis.tell(said), { gateway, proxy: proxy.host, connection, queue, count });
  console.log(JSON.stringify(told));
  assert.equal(told.opened, 3);
  assert.equal(told.stray, "unauthorized");
  assert.ok(told.asked > 0, "some answer was lost");
  assert.deepEqual(told.surprises, []);
  assert.deepEqual(told.done, new Array(count).fill(1), "each message was completed once");
  assert.deepEqual(told.deliveredAfterDone, [], "none came again after it was completed");
  const { active, deadLetter, enqueued } = told.counts;
  assert.deepEqual({ active, deadLetter, enqueued }, { active: 0, deadLetter: 0, enqueued: count }, "each message was stored once");
});
proxy.close();
console.log("told");
