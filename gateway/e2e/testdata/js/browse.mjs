// A browser and a selector of rhea, as JMS clients have them, which knows nothing of Service Bus.
import assert from "node:assert/strict";
import { once } from "node:events";
import rhea from "rhea";

const { STORY_GATEWAY: gateway, STORY_QUEUE: queue, STORY_POLICY: username, STORY_KEY: password } = process.env;
const [host, port] = gateway.split(":");
const connection = rhea.create_container().connect({ host, port, username, password, reconnect: false });
for (const fault of ["connection_error", "session_error", "sender_error", "disconnected"]) {
  connection.on(fault, (context) => { throw context.error ?? context.connection.error ?? new Error(fault); });
}
const sender = connection.open_sender(queue);
await once(sender, "sendable");
const sent = Array.from({ length: 250 }, (_, i) => `message ${i}`);
for (const body of sent) {
  sender.send({ body });
  await once(sender, "accepted");
}

for (const snd_settle_mode of [0, 1]) {
  const browser = connection.open_receiver({
    source: { address: queue, distribution_mode: "copy" }, snd_settle_mode, credit_window: 0, autoaccept: true,
  });
  await once(browser, "receiver_open");
  assert.equal(browser.source.distribution_mode, "copy");
  const seen = [];
  browser.on("message", ({ message }) => seen.push(message.body));
  browser.add_credit(1000);
  browser.drain_credit();
  await once(browser, "receiver_drained");
  assert.deepEqual(seen, sent);
  browser.close();
  await once(browser, "receiver_close");
}

const chooser = connection.open_receiver({ source: { address: queue, filter: rhea.filter.selector("colour = 'blue'") } });
const [{ receiver }] = await once(chooser, "receiver_error");
assert.equal(receiver.error.condition, "amqp:not-implemented");

connection.removeAllListeners("disconnected");
connection.close();
await once(connection, "connection_close");
console.log("told");
