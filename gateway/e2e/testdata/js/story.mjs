// One queue's life, told with the official JavaScript SDK. The connection
// string and the queue's name come from the environment; any surprise is an
// uncaught exception.
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";

// The SDK takes it from here, and Node 18 keeps it elsewhere.
globalThis.crypto ??= webcrypto;

const connection = process.env.STORY_CONNECTION;
const queue = process.env.STORY_QUEUE;
const retryOptions = { maxRetries: 0, timeoutInMs: 20000 };
const client = new ServiceBusClient(connection, { retryOptions });
const admin = new ServiceBusAdministrationClient(connection);

async function one(receiver) {
  const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 20000 });
  assert.ok(message, "no message came");
  return message;
}

async function none(receiver) {
  assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 300 }), []);
}

// Management.
const created = await admin.createQueue(queue, { lockDuration: "PT30S", maxDeliveryCount: 5, userMetadata: "js" });
assert.equal(created.name, queue);
assert.equal(created.lockDuration, "PT30S");
assert.equal(await admin.queueExists(queue), true);
assert.equal(await admin.queueExists(queue + "-not"), false);
const settings = await admin.getQueue(queue);
settings.maxDeliveryCount = 7;
assert.equal((await admin.updateQueue(settings)).maxDeliveryCount, 7);
const listed = [];
for (let n = 0; n < 10 && !listed.includes(queue); n++) { // pages shift while other tests delete queues
  for await (const page of admin.listQueues().byPage({ maxPageSize: 2 })) {
    listed.push(...page.map((q) => q.name));
  }
}
assert.ok(listed.includes(queue), `${queue} is not among ${listed}`);
await assert.rejects(admin.createQueue(queue), { code: "MessageEntityAlreadyExistsError" });
assert.ok((await admin.getNamespaceProperties()).name);

// Sending and receiving, with properties of several types.
const sender = client.createSender(queue);
const receiver = client.createReceiver(queue);
const when = new Date("1994-11-06T08:49:37.000Z");
await sender.sendMessages({
  body: { hello: "world" }, messageId: "m-1", subject: "s", correlationId: "c", contentType: "application/json", to: "t",
  replyTo: "r", partitionKey: "k", timeToLive: 3600000,
  applicationProperties: { text: "grüße", number: 1.5, yes: true, when, nothing: null },
});
let m = await one(receiver);
assert.deepEqual(m.body, { hello: "world" });
assert.equal(m.messageId, "m-1");
assert.equal(m.subject, "s");
assert.equal(m.correlationId, "c");
assert.equal(m.partitionKey, "k");
assert.ok(Math.abs(m.timeToLive - 3600000) < 60000, `${m.timeToLive}`); // the SDK counts it from its own clock
assert.equal(m.deliveryCount, 0);
assert.equal(m.sequenceNumber.toNumber(), 1);
assert.deepEqual({ ...m.applicationProperties, when: new Date(m.applicationProperties.when) },
  { text: "grüße", number: 1.5, yes: true, when, nothing: null });
const before = m.lockedUntilUtc;
assert.ok((await receiver.renewMessageLock(m)) >= before);
await receiver.completeMessage(m);

// A batch, and the other outcomes.
const batch = await sender.createMessageBatch();
for (const body of ["abandoned", "deferred", "dead"]) {
  assert.ok(batch.tryAddMessage({ body, messageId: body }));
}
await sender.sendMessages(batch);
m = await one(receiver);
await receiver.abandonMessage(m, { changed: "yes" });
m = await one(receiver);
assert.equal(m.body, "abandoned");
assert.equal(m.deliveryCount, 1);
assert.equal(m.applicationProperties.changed, "yes");
await receiver.completeMessage(m);

m = await one(receiver);
await receiver.deferMessage(m);
const [deferred] = await receiver.receiveDeferredMessages(m.sequenceNumber);
assert.equal(deferred.body, "deferred");
await receiver.completeMessage(deferred);

m = await one(receiver);
await receiver.deadLetterMessage(m, { deadLetterReason: "why", deadLetterErrorDescription: "because" });
const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
m = await one(dead);
assert.equal(m.body, "dead");
assert.equal(m.deadLetterReason, "why");
assert.equal(m.deadLetterErrorDescription, "because");
await dead.completeMessage(m);
await none(receiver);

// Scheduling, cancelling, browsing.
const [kept, cancelled] = await sender.scheduleMessages([{ body: "kept" }, { body: "cancelled" }], new Date(Date.now() + 6000));
const browsed = await receiver.peekMessages(10, { fromSequenceNumber: kept });
assert.deepEqual(browsed.map((b) => [b.body, b.state]), [["kept", "scheduled"], ["cancelled", "scheduled"]]);
await sender.cancelScheduledMessages(cancelled);
m = await one(receiver);
assert.equal(m.body, "kept");
await receiver.completeMessage(m);

// Receiving and deleting; subscribing.
await sender.sendMessages([{ body: "x" }, { body: "y" }]);
const deleting = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
assert.equal((await one(deleting)).body, "x");
await deleting.close();
const streamed = await new Promise((resolve, reject) => {
  receiver.subscribe({ processMessage: async (s) => resolve(s.body), processError: async (e) => reject(e.error) });
});
assert.equal(streamed, "y");
await receiver.close();
const counts = await admin.getQueueRuntimeProperties(queue);
assert.equal(counts.deadLetterMessageCount, 0);
assert.equal(counts.scheduledMessageCount, 0);

// Refusals in the SDK's own words.
await assert.rejects(client.createSender(queue + "-not").sendMessages({ body: "x" }), { code: "MessagingEntityNotFound" });
await admin.deleteQueue(queue);
await assert.rejects(admin.getQueue(queue), { code: "MessageEntityNotFoundError" });

await client.close();
console.log("told");
process.exit(0); // timers that the SDK leaves behind would hold it for a while
