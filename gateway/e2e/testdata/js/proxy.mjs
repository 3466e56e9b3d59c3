import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * Stands between clients and a gateway, and breaks their connections.
 * @param {string} gateway HOST:PORT
 * @param {number} [at] a port; any by default
 */
export async function startProxy(gateway, at = 0) {
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
    client.on("data", (data) => pair.gate.write(data));
    pair.gate.on("data", (data) => {
      if (!pair.muted) client.write(data);
      else setTimeout(end, 500); // for what else is asked
    });
  });
  server.listen(at, "127.0.0.1");
  await once(server, "listening");
  return {
    host: `127.0.0.1:${server.address().port}`,
    /** Breaks every connection: "at once", or "unanswered", after the next answer, which the client does not get. */
    cut(how) {
      for (const pair of pairs) {
        if (how === "unanswered") pair.muted = true;
        else pair.client.destroy();
      }
    },
    close() { server.close(); },
  };
}
