// The life of a few messages, told in a page with the official JavaScript SDK.
import { ServiceBusClient } from "@azure/service-bus";

function same(got, want, what) {
  const [g, w] = [JSON.stringify(got), JSON.stringify(want)];
  if (g !== w) {
    throw new Error(`${what}: got ${g}, want ${w}`);
  }
}

globalThis.tell = async ({ connection, token, queue, sessions }) => {
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: 120_000 } });
  const one = async (receiver) => {
    const messages = await receiver.receiveMessages(1, { maxWaitTimeInMs: 300_000 });
    same(messages.length, 1, "messages");
    return messages[0];
  };

  const sender = client.createSender(queue);
  const receiver = client.createReceiver(queue);
  const large = "x".repeat(200_000); // more than one frame
  await sender.sendMessages([
    { body: { from: "a page" }, messageId: "m-1", subject: "s", applicationProperties: { text: "grüße", n: 1.5, yes: true } },
    { body: "dead" },
    { body: large },
  ]);
  same((await receiver.peekMessages(3)).map((m) => m.state), ["active", "active", "active"], "peeked");
  let m = await one(receiver);
  same([m.body, m.messageId, m.subject, m.applicationProperties, m.deliveryCount],
    [{ from: "a page" }, "m-1", "s", { text: "grüße", n: 1.5, yes: true }, 0], "received");
  same(await receiver.renewMessageLock(m) >= m.lockedUntilUtc, true, "renewed");
  await receiver.abandonMessage(m);
  m = await one(receiver);
  same(m.deliveryCount, 1, "delivery count");
  await receiver.completeMessage(m);
  await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "why" });
  const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
  m = await one(dead);
  same([m.body, m.deadLetterReason], ["dead", "why"], "dead letter");
  await dead.completeMessage(m);
  m = await one(receiver);
  same(m.body === large, true, "the large body");
  await receiver.completeMessage(m);

  const [number] = await sender.scheduleMessages([{ body: "later" }], new Date(Date.now() + 60000));
  await sender.cancelScheduledMessages(number);
  same((await receiver.peekMessages(1, { fromSequenceNumber: number })).length, 0, "cancelled");

  const streamed = new Promise((resolve, reject) => receiver.subscribe({
    processMessage: async (s) => resolve(s.body),
    processError: async (e) => reject(e.error),
  }));
  await sender.sendMessages({ body: "pushed" });
  same(await streamed, "pushed", "streamed");
  await receiver.close();

  await client.createSender(sessions).sendMessages([{ body: 1, sessionId: "a" }, { body: 2, sessionId: "a" }]);
  const session = await client.acceptNextSession(sessions);
  same(session.sessionId, "a", "session");
  await session.setSessionState({ step: 1 });
  same(await session.getSessionState(), { step: 1 }, "state");
  for (const want of [1, 2]) {
    m = await one(session);
    same(m.body, want, "of the session");
    await session.completeMessage(m);
  }

  // A page that is given a token, rather than a key, for sending.
  const guest = new ServiceBusClient(token, { retryOptions: { maxRetries: 0, timeoutInMs: 120_000 } });
  await guest.createSender(queue).sendMessages({ body: "by token" });
  const refused = await guest.createReceiver(queue).peekMessages(1).catch((e) => e);
  same(refused.code, "UnauthorizedAccess", "peeking with a right to send");
  await guest.close();
  same((await one(client.createReceiver(queue, { receiveMode: "receiveAndDelete" }))).body, "by token", "sent by token");
  await client.close();
};
