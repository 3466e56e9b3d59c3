// A few messages through WebSockets with rhea, which knows nothing of Service Bus.
import assert from "node:assert/strict";
import { once } from "node:events";
import rhea from "rhea";
import WebSocket from "ws";

const { STORY_GATEWAY: gateway, STORY_QUEUE: queue, STORY_POLICY: username, STORY_KEY: password } = process.env;
const dial = rhea.websocket_connect(WebSocket);

for (const scheme of ["ws", "wss"]) {
  for (const protocol of ["AMQPWSB10", "amqp"]) {
    const connection = rhea.create_container().connect({
      connection_details: dial(`${scheme}://${gateway}/$servicebus/websocket?from=${scheme}`, [protocol], {}),
      username, password, reconnect: false, max_frame_size: 4096, idle_time_out: 10000,
    });
    for (const fault of ["connection_error", "session_error", "sender_error", "receiver_error", "disconnected"]) {
      connection.on(fault, (context) => { throw context.error ?? context.connection.error ?? new Error(fault); });
    }
    const sender = connection.open_sender(queue);
    await once(sender, "sendable");
    const bodies = ["small", "x".repeat(100_000), "last"]; // the second takes many frames
    for (const body of bodies) {
      sender.send({ body });
      await once(sender, "accepted");
    }
    const receiver = connection.open_receiver({ source: queue, credit_window: 0, autoaccept: false });
    const got = [];
    for (const _ of bodies) {
      receiver.add_credit(1);
      const [{ message, delivery }] = await once(receiver, "message");
      got.push(message.body);
      delivery.accept(); // which settles it: there is no answer
    }
    assert.deepEqual(got, bodies, `by ${scheme} and ${protocol}`);
    connection.removeAllListeners("disconnected");
    connection.close();
    await once(connection, "connection_close");
  }
}
console.log("told");
