// A namespace that is told by its policy, with the official JavaScript SDK and the gateway's own client.
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";
import { WebSocket } from "ws";
import { Crosstown } from "./served.mjs";

// Both take it from here, and Node 18 keeps it elsewhere.
globalThis.crypto ??= webcrypto;

const { STORY_CONNECTION: own, STORY_NAMESPACE: theirs } = process.env;
const options = { retryOptions: { maxRetries: 0, timeoutInMs: 120_000 } };

const client = new ServiceBusClient(theirs, options);
await client.createSender("orders").sendMessages([{ body: "one" }, { body: "two" }]);
const receiver = client.createReceiver("orders");
const messages = [];
while (messages.length < 2) messages.push(...await receiver.receiveMessages(2 - messages.length, { maxWaitTimeInMs: 300_000 }));
for (const m of messages) await receiver.completeMessage(m);
assert.equal(messages[0].body, "one");
await client.close();

const other = new ServiceBusClient(own, options);
await assert.rejects(other.createSender("orders").sendMessages({ body: "lost" }), { code: "MessagingEntityNotFound" });
await other.close();

const bus = new Crosstown(theirs, { WebSocket });
const outside = new Crosstown(own, { WebSocket });
await bus.send("orders", "from JavaScript");
await assert.rejects(outside.send("orders", "lost"), { code: "not_found" });
assert.deepEqual((await bus.entities("queue")).map((q) => q.name), ["orders"]);
bus.close();
outside.close();
console.log("told");
