// The story of the Service Bus trigger of Azure Functions on Node: a poller that
// calls a function for each message, 16 at once, completes the message when the
// function returns and abandons it when the function throws, while locks are
// renewed; and pollers of sessions.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { ServiceBusClient } from "@azure/service-bus";

const { STORY_TLS: connection, STORY_NAME: name, CROSSTOWN: crosstown } = process.env;
const client = new ServiceBusClient(connection);
const create = (...args) => execFileSync(crosstown, ["queue", "create", ...args], { stdio: ["ignore", "ignore", "inherit"] });
const range = (n) => Array.from({ length: n }, (_, i) => i);
const left = async (queue, options) => {
  const peeker = new ServiceBusClient(connection); // a client that has peeked continues where it stopped
  const ids = (await peeker.createReceiver(queue, options).peekMessages(100)).map((m) => m.messageId);
  await peeker.close();
  return ids;
};

// settled returns what a trigger does with a message, given its function; it tells if the message was completed.
const settled = (receiver, call) => async (message) => {
  try {
    await call(message);
  } catch {
    await receiver.abandonMessage(message);
    return false;
  }
  await receiver.completeMessage(message);
  return true;
};

// -- A queue.

{
  const queue = `${name}-functions`, count = 100, maximum = 3;
  create(queue, "--max-delivery-count", String(maximum), "--lock-duration", "10s");
  const sender = client.createSender(queue);
  await sender.sendMessages(range(count).map((i) => ({ messageId: String(i), body: { order: i } })));

  const calls = new Map(), problems = [];
  let running = 0, most = 0, completed = 0, fill, finish, renewed = false;
  const full = new Promise((resolve) => { fill = resolve; });
  const finished = new Promise((resolve) => { finish = resolve; });
  const receiver = client.createReceiver(queue, { receiveMode: "peekLock", maxAutoLockRenewalDurationInMs: 60_000 });
  const work = async (message) => {
    assert.deepEqual(message.body, { order: Number(message.messageId) });
    const n = (calls.get(message.messageId) ?? 0) + 1;
    calls.set(message.messageId, n);
    assert.equal(message.deliveryCount, n - 1);
    if (++running === 16) fill();
    most = Math.max(most, running);
    try {
      await full; // the first 16 wait for each other
      if (message.messageId === "1") { // lasts until renewals have moved the end of its lock by its duration
        const first = message.lockedUntilUtc.getTime();
        while (message.lockedUntilUtc.getTime() < first + 10_000) await new Promise((resolve) => setTimeout(resolve, 50));
        renewed = true;
      }
      if (message.messageId === "7") throw new Error("always");
      if (message.messageId === "8" && n === 1) throw new Error("once");
    } finally {
      running--;
    }
  };
  const settle = settled(receiver, work);
  const poller = receiver.subscribe(
    {
      processMessage: async (message) => { if (await settle(message) && ++completed === count - 1) setImmediate(finish); },
      processError: async ({ error, errorSource }) => { problems.push(`${errorSource}: ${error}`); finish(); },
    },
    { autoCompleteMessages: false, maxConcurrentCalls: 16 },
  );
  const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
  const [letter] = await dead.receiveMessages(1, { maxWaitTimeInMs: 60_000 });
  assert.equal(letter.messageId, "7");
  assert.equal(letter.deadLetterReason, "MaxDeliveryCountExceeded");
  await dead.completeMessage(letter);
  await finished;
  await poller.close();
  await receiver.close();

  assert.deepEqual(problems, []);
  assert.equal(most, 16);
  assert.equal(renewed, true);
  assert.deepEqual(await left(queue), []);
  assert.equal(calls.size, count);
  for (const [id, n] of calls) assert.equal(n, { 7: maximum, 8: 2 }[id] ?? 1, `calls for ${id}`);
  assert.deepEqual(await left(queue, { subQueueType: "deadLetter" }), []);
  await dead.close();
  await sender.close();
}

// -- A queue with sessions: each of several pollers takes the next session, until it is idle.

{
  const queue = `${name}-sessions`, sessions = 8, each = 20, pollers = 4;
  create(queue, "--requires-session");
  const sender = client.createSender(queue);
  for (const i of range(each)) {
    await sender.sendMessages(range(sessions).map((s) => ({ sessionId: `s${s}`, messageId: `s${s}-${i}`, body: i })));
  }

  const got = new Map(), failed = new Set(), open = new Set(), problems = [];
  let most = 0, done = 0, fill;
  const full = new Promise((resolve) => { fill = resolve; });
  const session = async () => {
    const receiver = await client.acceptNextSession(queue, { maxAutoLockRenewalDurationInMs: 60_000 });
    assert(!open.has(receiver.sessionId), `${receiver.sessionId} is open twice`);
    open.add(receiver.sessionId);
    most = Math.max(most, open.size);
    if (open.size === pollers) fill();
    await full;
    await new Promise((empty) => {
      const work = async (message) => {
        const bodies = got.get(message.sessionId) ?? [];
        got.set(message.sessionId, bodies);
        if (message.body === 5 && !failed.has(message.sessionId)) {
          failed.add(message.sessionId);
          throw new Error("once");
        }
        bodies.push(message.body);
      };
      const settle = settled(receiver, work);
      receiver.subscribe(
        {
          processMessage: async (message) => {
            await settle(message);
            // The SDK gives credit for the next message when this function has returned; the session is closed after that.
            if (got.get(message.sessionId).length === each) setImmediate(empty);
          },
          processError: async ({ error, errorSource }) => { problems.push(`${errorSource}: ${error}`); empty(); },
        },
        { autoCompleteMessages: false, maxConcurrentCalls: 1 },
      );
    });
    done++;
    open.delete(receiver.sessionId);
    await receiver.close();
  };
  await Promise.all(range(pollers).map(async () => { for (let i = 0; i < sessions / pollers; i++) await session(); }));

  assert.deepEqual(problems, []);
  assert.equal(done, sessions);
  assert.equal(most, pollers);
  assert.equal(failed.size, sessions);
  for (const s of range(sessions)) assert.deepEqual(got.get(`s${s}`), range(each), `order of s${s}`);
  // The other sessions are empty, so this is the next.
  await sender.sendMessages({ sessionId: "last", body: "last" });
  const last = await client.acceptNextSession(queue);
  assert.equal(last.sessionId, "last");
  await last.close();
  await sender.close();
}

await client.close();
