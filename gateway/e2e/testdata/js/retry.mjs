// Messages that are put off, told with the official JavaScript SDK.
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";

// The SDK takes it from here, and Node 18 keeps it elsewhere.
globalThis.crypto ??= webcrypto;

const client = new ServiceBusClient(process.env.STORY_CONNECTION, { retryOptions: { maxRetries: 0, timeoutInMs: 120_000 } });
const sender = client.createSender(process.env.STORY_QUEUE);
const receiver = client.createReceiver(process.env.STORY_QUEUE);
const clockSlack = 50; // ms, by which the store's clock may differ from ours

async function one() {
  const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 300_000 });
  assert.ok(message, "no message came");
  return message;
}

for (const [property, value, wait] of [
  ["x-crosstown-retry-after", () => 1, 1000],
  ["x-crosstown-retry-after", () => 1.2, 1200],
  ["x-crosstown-retry-after", () => "PT0.7S", 700],
  ["x-crosstown-retry-at", () => new Date(Date.now() + 900), 900],
]) {
  await sender.sendMessages([{ body: "put off" }, { body: "other" }]);
  const m = await one();
  assert.equal(m.body, "put off");
  const began = Date.now();
  await receiver.abandonMessage(m, { [property]: value(), tried: property });
  const other = await one();
  assert.equal(other.body, "other");
  await receiver.completeMessage(other);
  const [browsed] = await receiver.peekMessages(5, { fromSequenceNumber: m.sequenceNumber });
  assert.equal(browsed.body, "put off");
  const again = await one();
  const took = Date.now() - began;
  assert.ok(took >= wait - clockSlack, `back after ${took} ms, not ${wait}`);
  assert.equal(again.deliveryCount, 1);
  assert.equal(again.sequenceNumber.toString(), m.sequenceNumber.toString());
  assert.deepEqual(again.applicationProperties, { tried: property });
  await receiver.completeMessage(again);
}

// What is not a delay is refused, and the message stays locked.
await sender.sendMessages({ body: "last" });
const last = await one();
await assert.rejects(receiver.abandonMessage(last, { "x-crosstown-retry-after": -1 }), /x-crosstown-retry-after is not a delay/);
await client.close();
console.log("told");
