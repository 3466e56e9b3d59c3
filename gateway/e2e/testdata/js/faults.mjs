// What the official JavaScript SDK makes of faults: does the steps of STORY_CASES and writes
// {case: outcome} to the file STORY_REPORT.
import { writeFile } from "node:fs/promises";
import { webcrypto } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";

// The SDK takes it from here, and Node 18 keeps it elsewhere.
globalThis.crypto ??= webcrypto;

const message = (body, more) => ({ body, messageId: body, ...more });
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

async function send(client) {
  await client.createSender("q").sendMessages(message("one"));
  return "sent";
}

async function token(client) {
  const sender = client.createSender("q");
  await sender.sendMessages(message("one"));
  await pause(2000);
  await sender.sendMessages(message("two"));
  return "sent";
}

async function settle(client, maxWaitTimeInMs) {
  await send(client);
  const receiver = client.createReceiver("q");
  const [received] = await receiver.receiveMessages(1, { maxWaitTimeInMs });
  if (!received) return "no message arrives";
  await receiver.completeMessage(received);
  return "completed";
}

async function receive(client, maxWaitTimeInMs) {
  await client.createSender("q").sendMessages(["one", "two", "three"].map((body) => message(body)));
  const receiver = client.createReceiver("q");
  const bodies = [];
  while (bodies.length < 3) {
    const received = await receiver.receiveMessages(3 - bodies.length, { maxWaitTimeInMs });
    if (received.length === 0) break;
    for (const m of received) {
      bodies.push(m.body);
      await receiver.completeMessage(m);
    }
  }
  return bodies.join(", ");
}

async function renew(client, maxWaitTimeInMs) {
  await send(client);
  const receiver = client.createReceiver("q");
  const [received] = await receiver.receiveMessages(1, { maxWaitTimeInMs });
  await receiver.renewMessageLock(received);
  return "renewed";
}

async function session(client, maxWaitTimeInMs) {
  await client.createSender("q").sendMessages(message("one", { sessionId: "s" }));
  const receiver = await client.acceptSession("q", "s");
  const [received] = await receiver.receiveMessages(1, { maxWaitTimeInMs });
  await pause(1000);
  await receiver.completeMessage(received);
  return "completed";
}

const shown = (e) => `\`${e.name}\`` + (e.code === undefined ? "" : `, code \`${e.code}\``);

const steps = { send, token, settle, receive, renew, session };
const report = {};
await Promise.all(JSON.parse(process.env.STORY_CASES).map(async ({ name, step, connection, receiveMS }) => {
  const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 3, retryDelayInMs: 100, timeoutInMs: 15000 } });
  try {
    report[name] = await steps[step](client, receiveMS);
  } catch (e) {
    report[name] = e.errors ? `\`${e.name}\` of ${shown(e.errors.at(-1))}` : shown(e);
  } finally {
    await client.close();
  }
}));
await writeFile(process.env.STORY_REPORT, JSON.stringify(report));
console.log("told");
