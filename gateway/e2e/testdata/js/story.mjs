// The lives of queues and a topic, told with the official JavaScript SDK. The
// connection string and the first queue's name come from the environment; any
// surprise is an uncaught exception.
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";
import WebSocket from "ws";

// The SDK takes it from here, and Node 18 keeps it elsewhere.
globalThis.crypto ??= webcrypto;

const connection = process.env.STORY_CONNECTION;
const queue = process.env.STORY_QUEUE;
const retryOptions = { maxRetries: 0, timeoutInMs: 120_000 };
const webSocketOptions = process.env.STORY_WEBSOCKET && { webSocket: WebSocket };
const client = new ServiceBusClient(connection, { retryOptions, webSocketOptions });
const admin = new ServiceBusAdministrationClient(connection);

async function one(receiver) {
  const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 300_000 });
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
// What the SDK's own deferredMessage tests say: each deferral and each abandon counts.
const number = m.sequenceNumber;
let [deferred] = await receiver.receiveDeferredMessages(number);
assert.equal(deferred.body, "deferred");
assert.equal(deferred.deliveryCount, 1);
await receiver.deferMessage(deferred);
[deferred] = await receiver.receiveDeferredMessages(number);
assert.equal(deferred.deliveryCount, 2);
await receiver.abandonMessage(deferred);
[deferred] = await receiver.receiveDeferredMessages(number);
assert.equal(deferred.deliveryCount, 3);
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

// Sessions.
const sessions = queue + "-sessions";
await admin.createQueue(sessions, { requiresSession: true });
const toSessions = client.createSender(sessions);
await toSessions.sendMessages([["a", 1], ["b", 2], ["a", 3]].map(([sessionId, body]) => ({ body, sessionId })));
let session = await client.acceptSession(sessions, "a");
assert.equal(session.sessionId, "a");
assert.ok(session.sessionLockedUntilUtc > new Date());
const ofA = [await one(session), await one(session)];
assert.deepEqual(ofA.map((x) => [x.sessionId, x.body]), [["a", 1], ["a", 3]]);
assert.equal(await session.getSessionState(), null);
await session.setSessionState({ step: 1 });
assert.deepEqual(await session.getSessionState(), { step: 1 });
assert.ok((await session.renewSessionLock()) > new Date());
await assert.rejects(client.acceptSession(sessions, "a"), { code: "SessionCannotBeLocked" });
for (const x of ofA) {
  await session.completeMessage(x);
}
await session.close();
session = await client.acceptNextSession(sessions);
assert.equal(session.sessionId, "b");
await session.deferMessage(await one(session));
const [put] = await session.peekMessages(1);
assert.equal(put.state, "deferred");
const [back] = await session.receiveDeferredMessages(put.sequenceNumber);
assert.equal(back.deliveryCount, 1);
await session.completeMessage(back);
await session.close();
const impatient = new ServiceBusClient(connection, { webSocketOptions, retryOptions: { maxRetries: 0, timeoutInMs: 1000 } });
await assert.rejects(impatient.acceptNextSession(sessions), { code: "ServiceTimeout" });
await impatient.close();
await assert.rejects(toSessions.sendMessages({ body: "no session" }), /SessionId/);
await admin.deleteQueue(sessions);

// Topics, subscriptions and rules, managed by both of the SDK's clients.
const topic = queue + "-topic";
await admin.createTopic(topic, { defaultMessageTimeToLive: "PT1H", userMetadata: "js" });
assert.equal((await admin.getTopic(topic)).defaultMessageTimeToLive, "PT1H");
assert.equal(await admin.topicExists(topic), true);
assert.equal(await admin.subscriptionExists(topic, "all"), false);
await admin.createSubscription(topic, "all", { maxDeliveryCount: 3 });
const large = await admin.createSubscription(topic, "large", {
  defaultRuleOptions: { name: "first", filter: { sqlExpression: "size > @limit", sqlParameters: { "@limit": 100 } } },
});
assert.equal(large.subscriptionName, "large");
await admin.createRule(topic, "large", "red", { applicationProperties: { colour: "red" }, subject: "s" }, { sqlExpression: "SET seen = 'yes'" });
const rule = await admin.getRule(topic, "large", "red");
assert.deepEqual(rule.filter.applicationProperties, { colour: "red" });
assert.equal(rule.filter.subject, "s");
assert.equal(rule.action.sqlExpression, "SET seen = 'yes'");
assert.deepEqual((await admin.getRule(topic, "large", "first")).filter, { sqlExpression: "size > @limit", sqlParameters: { "@limit": 100 } });
const named = async (list) => { const all = []; for await (const x of list) { all.push(x.name ?? x.subscriptionName); } return all; };
assert.deepEqual(await named(admin.listRules(topic, "large")), ["first", "red"]);
assert.deepEqual(await named(admin.listSubscriptions(topic)), ["all", "large"]);
await assert.rejects(admin.createRule(topic, "large", "red", { sqlExpression: "1=1" }), { code: "MessageEntityAlreadyExistsError" });

const rules = client.createRuleManager(topic, "all");
assert.deepEqual((await named(rules.listRules())), ["$Default"]);
await rules.createRule("even", { sqlExpression: "n % 2 = 0" }, { sqlExpression: "SET half = n / 2" });
await rules.createRule("labelled", { subject: "s", applicationProperties: { colour: "red" } });
await rules.deleteRule("$Default");
const kept2 = [];
for await (const r of rules.listRules()) {
  kept2.push([r.name, r.filter, r.action]);
}
kept2.sort();
assert.equal(kept2[0][0], "even");
assert.equal(kept2[0][1].sqlExpression, "n % 2 = 0");
assert.equal(kept2[0][2].sqlExpression, "SET half = n / 2");
assert.equal(kept2[1][0], "labelled");
assert.equal(kept2[1][1].subject, "s");
assert.deepEqual(kept2[1][1].applicationProperties, { colour: "red" });
await assert.rejects(rules.createRule("bad", { sqlExpression: "n = = 1" }), /position 5/);

const toTopic = client.createSender(topic);
await toTopic.sendMessages([
  { body: "odd", applicationProperties: { n: 1, size: 500 } },
  { body: "even", applicationProperties: { n: 4, size: 5 } },
  { body: "red", subject: "s", applicationProperties: { n: 7, colour: "red", size: 5 } },
]);
const all = client.createReceiver(topic, "all", { receiveMode: "receiveAndDelete" });
m = await one(all);
assert.deepEqual([m.body, m.applicationProperties.half, m.applicationProperties.RuleName], ["even", 2, "even"]);
m = await one(all);
assert.deepEqual([m.body, m.applicationProperties.RuleName], ["red", undefined]);
await none(all);
const others = client.createReceiver(topic, "large", { receiveMode: "receiveAndDelete" });
m = await one(others);
assert.equal(m.body, "odd");
m = await one(others);
assert.deepEqual([m.body, m.applicationProperties.seen], ["red", "yes"]);
const held = await admin.getTopicRuntimeProperties(topic);
assert.equal(held.subscriptionCount, 2);
assert.equal((await admin.getSubscriptionRuntimeProperties(topic, "all")).activeMessageCount, 0);

// Forwarding.
const settingsOfAll = await admin.getSubscription(topic, "all");
settingsOfAll.forwardTo = queue;
assert.ok((await admin.updateSubscription(settingsOfAll)).forwardTo.endsWith("/" + queue));
await toTopic.sendMessages({ body: "on its way", applicationProperties: { n: 2 } });
const end = client.createReceiver(queue);
m = await one(end);
assert.equal(m.body, "on its way");
await end.completeMessage(m);
await end.close();
await admin.deleteSubscription(topic, "large");
await admin.deleteTopic(topic);
assert.equal(await admin.topicExists(topic), false);

// Refusals in the SDK's own words.
await assert.rejects(client.createSender(queue + "-not").sendMessages({ body: "x" }), { code: "MessagingEntityNotFound" });
await admin.deleteQueue(queue);
await assert.rejects(admin.getQueue(queue), { code: "MessageEntityNotFoundError" });

await client.close();
console.log("told");
process.exit(0); // timers that the SDK leaves behind would hold it for a while
