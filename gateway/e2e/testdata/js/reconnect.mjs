// What the client says when its connection breaks, and what it gets back.
import assert from "node:assert/strict";
import { WebSocket } from "ws";
import { startProxy } from "./proxy.mjs";
import { Crosstown } from "./served.mjs";

const { STORY_GATEWAY: gateway, STORY_CONNECTION: connectionString, STORY_QUEUE: queue, STORY_SESSIONS: sessions } = process.env;
const proxy = await startProxy(gateway);
const bus = new Crosstown(`http://${proxy.host}`, { connectionString, WebSocket, reconnect: { minDelay: 0.01, maxDelay: 0.2 } });
await bus.ready;
const said = (text) => ({ text, broker: { SessionId: "s" } });

// A send that got no answer: nobody knows, and this one was stored.
proxy.cut("unanswered");
await assert.rejects(bus.send(queue, "1"), { code: "connection_lost", unknownOutcome: true, retriable: false });
assert.deepEqual((await bus.peek(queue)).map((m) => m.text), ["1"]);

// A settlement that got no answer: asking again tells.
const feed = bus.receive(queue);
const first = (await feed.next()).value;
proxy.cut("unanswered");
await assert.rejects(first.complete(), { code: "connection_lost", unknownOutcome: true, retriable: true });
await assert.rejects(first.complete(), { code: "lock_lost" });
await bus.send(queue, "2");
assert.equal((await feed.next()).value.text, "2");
await feed.close();

// A session is given back with its connection, and what it held.
await bus.send(sessions, [said("1"), said("2")]);
const brief = bus.receive(sessions, { session: "s" });
const held = (await brief.next()).value;
assert.equal((await brief.next()).value.text, "2");
proxy.cut("at once");
await assert.rejects(brief.next(), { code: "session_lock_lost" });
await assert.rejects(held.complete(), { name: "CrosstownError", unknownOutcome: false });

// It is accepted again where that is wanted, with its state.
const lasting = bus.receive(sessions, { nextSession: true, wait: 20, reaccept: true });
await lasting.ready;
await lasting.setState("kept");
const again = (await lasting.next()).value;
assert.equal(again.text, "1");
const reopened = new Promise((resolve) => bus.on("open", resolve));
proxy.cut("at once");
await reopened;
const texts = [];
for await (const m of lasting) {
  texts.push(m.text);
  await m.complete();
  if (texts.length === 2) break;
}
assert.deepEqual(texts, ["1", "2"]);
await bus.close();
proxy.close();
console.log("told");
