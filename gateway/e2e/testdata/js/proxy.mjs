import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * Stands between clients and a gateway, and breaks their connections.
 * @param {string} gateway HOST:PORT
 */
export async function startProxy(gateway) {
  const [host, port] = gateway.split(":");
  const pairs = new Set();
  const server = createServer((client) => {
    const pair = { client, gate: connect({ host, port }), muted: false };
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      pair.gate.destroy();
    };
    for (const socket of [client, pair.gate]) socket.on("error", end).on("close", end);
    pair.gate.on("data", (data) => pair.muted || client.write(data));
    client.on("data", (data) => {
      pair.gate.write(data);
      if (pair.muted) setTimeout(end, 300); // what was asked is carried out by then, and not answered
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    host: `127.0.0.1:${server.address().port}`,
    /** Breaks every connection: "at once", or "unanswered", after the next request has got through. */
    cut(how) {
      for (const pair of pairs) {
        if (how === "unanswered") pair.muted = true;
        else pair.client.destroy();
      }
    },
    close() { server.close(); },
  };
}
