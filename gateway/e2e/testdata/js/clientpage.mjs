// Has a page tell pages/client.mjs, and breaks its connection meanwhile.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { browse } from "./browser.mjs";

const { STORY_GATEWAY: gateway, STORY_CONNECTION: connection, STORY_QUEUE: queue, STORY_PAGE: address } = process.env;
const count = 100;

// Whatever the page says to the gateway passes here.
const pairs = new Set();
const proxy = createServer((page) => {
  const [host, port] = gateway.split(":");
  const pair = { page, gate: connect({ host, port }), muted: false };
  pairs.add(pair);
  const end = () => {
    pairs.delete(pair);
    page.destroy();
    pair.gate.destroy();
  };
  for (const socket of [page, pair.gate]) socket.on("error", end).on("close", end);
  pair.gate.on("data", (data) => pair.muted || page.write(data));
  page.on("data", (data) => {
    pair.gate.write(data);
    if (pair.muted) setTimeout(end, 300); // what the page asked is carried out by then, and not answered
  });
});
proxy.listen(0, "127.0.0.1");
await once(proxy, "listening");

const cut = (how) => {
  for (const pair of pairs) {
    if (how === "unanswered") pair.muted = true;
    else pair.page.destroy();
  }
};

await browse(async (page) => {
  await page.exposeFunction("cut", cut);
  await page.goto(address);
  await page.waitForFunction("globalThis.tell");
  const told = await page.evaluate((said) => globalThis.tell(said), { gateway, proxy: `127.0.0.1:${proxy.address().port}`, connection, queue, count });
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
