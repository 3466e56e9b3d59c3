// What a program sees of each error, told with the official JavaScript SDK:
// writes {case: {type, text}} to the file STORY_REPORT.
import { writeFile } from "node:fs/promises";
import { webcrypto } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";

// The SDK takes it from here, and Node 18 keeps it elsewhere.
globalThis.crypto ??= webcrypto;

const { STORY_QUEUE: queue, STORY_CONNECTION: connection } = process.env;
const message = { body: "hello" };

async function send(connectionString, entity, what) {
  const client = new ServiceBusClient(connectionString, { retryOptions: { maxRetries: 0, timeoutInMs: 60_000 } });
  try {
    await client.createSender(entity).sendMessages(what);
  } finally {
    await client.close();
  }
}

async function settleLost() {
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0 } });
  try {
    await client.createSender(queue).sendMessages(message);
    const receiver = client.createReceiver(queue);
    const [received] = await receiver.receiveMessages(1);
    const unlocked = await fetch(`${process.env.STORY_MESSAGES}/${received.messageId}/${received.lockToken}`, {
      method: "PUT",
      headers: { Authorization: process.env.STORY_TOKEN },
    });
    if (!unlocked.ok) throw new Error(`unlock: ${unlocked.status} ${await unlocked.text()}`);
    await receiver.completeMessage(received);
  } finally {
    await client.close();
  }
}

const report = {};
for (const [name, provoke] of Object.entries({
  "wrong key": () => send(process.env.STORY_WRONG_KEY, queue, message),
  "expired token": () => send(process.env.STORY_EXPIRED, queue, message),
  "missing entity": () => send(connection, "no-such-queue", message),
  "missing claim": () => send(process.env.STORY_LISTEN_ONLY, queue, message),
  "no network": () => send(process.env.STORY_NOBODY, queue, message),
  "lost lock": settleLost,
  "message too large": () => send(connection, queue, { body: "x".repeat(300 << 10) }),
  "disabled entity": () => send(connection, process.env.STORY_DISABLED, message),
})) {
  try {
    await provoke();
  } catch (e) {
    report[name] = { type: e.code === undefined ? e.name : `${e.name}, code ${e.code}${e.retryable ? ", retryable" : ""}`, text: e.message };
  }
}
await writeFile(process.env.STORY_REPORT, JSON.stringify(report));
console.log("told");
