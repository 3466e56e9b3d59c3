// An order workflow against a Crosstown of the test's own. Run it with: node --test orders.test.mjs
// CROSSTOWN is the program, "crosstown" by default; ENTITIES the file with the queues.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ServiceBusClient } from "@azure/service-bus";

const entities = process.env.ENTITIES ?? fileURLToPath(new URL("../orders.yaml", import.meta.url));
let server, bus, client;

before(async () => {
  server = spawn(process.env.CROSSTOWN ?? "crosstown", ["test-server", "--config", entities], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(server, "exit").then(([code]) => Promise.reject(new Error(`crosstown test-server has ended with code ${code}: standard error says why`)));
  const [line] = await Promise.race([once(createInterface({ input: server.stdout }), "line"), ended]);
  ended.catch(() => {}); // from now on it may end
  bus = JSON.parse(line);
  client = new ServiceBusClient(bus.connectionString);
});

// clock moves the broker's time, and returns it: see docs/testing.md.
async function clock(move) {
  const answer = await fetch(bus.url + "/$crosstown/clock", {
    method: move ? "PUT" : "GET", headers: { Authorization: bus.authorization }, body: move && JSON.stringify(move),
  });
  assert.ok(answer.ok, await answer.clone().text());
  return new Date((await answer.json()).now);
}

after(async () => {
  await client.close();
  server.stdin.end(); // then it ends
  await once(server, "exit");
});

test("an order that fails is tried twice", async () => {
  await client.createSender("orders").sendMessages({ body: "tea" });
  const receiver = client.createReceiver("orders");
  for (let i = 0; i < 2; i++) {
    const [order] = await receiver.receiveMessages(1);
    await receiver.abandonMessage(order);
  }
  const [dead] = await client.createReceiver("orders", { subQueueType: "deadLetter" }).receiveMessages(1);
  assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
});

test("a reminder comes when it is due", async () => {
  const due = new Date((await clock()).getTime() + 14 * 24 * 3600 * 1000);
  await client.createSender("reminders").scheduleMessages({ body: "pay" }, due);
  await clock({ advance: "P14D" });
  const receiver = client.createReceiver("reminders");
  const [reminder] = await receiver.receiveMessages(1);
  assert.ok(reminder.enqueuedTimeUtc >= due);
  await receiver.completeMessage(reminder);
});
