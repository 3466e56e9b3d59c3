// A gateway that does what a test says, frame by frame.
import { once } from "node:events";
import { createServer } from "node:http";
import { WebSocket, WebSocketServer } from "ws";
import { Crosstown } from "./crosstown.js";

const subprotocol = "crosstown.v1.json";

/** What is read in the order of its arrival, waited for where need be. */
class Queue {
  #items = [];
  #waiting = [];

  push(item) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(item);
    else this.#items.push(item);
  }

  async next() {
    return this.#items.length > 0 ? this.#items.shift() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  get empty() { return this.#items.length === 0; }
}

/** One connection, as the gateway sees it. */
class Peer {
  #frames = new Queue();
  #socket;

  constructor(socket) {
    this.#socket = socket;
    this.closed = once(socket, "close").then(([code]) => code);
    socket.on("message", (data) => this.#frames.push(JSON.parse(data)));
  }

  /** The next frame, which must be of this operation. */
  async expect(op) {
    const frame = await this.#frames.next();
    if (frame.op !== op) throw new Error(`got ${JSON.stringify(frame)}, want ${op}`);
    return frame;
  }

  /** Whether every frame that came was expected. */
  get quiet() { return this.#frames.empty; }

  send(frame) { this.#socket.send(JSON.stringify(frame)); }
  ok(request, members) { this.send({ op: "ok", id: request.id, ...members }); }
  error(request, code, about) { this.send({ op: "error", id: request.id, code, text: `It is ${code}.`, retriable: false, ...about }); }

  async signIn(members) {
    const auth = await this.expect("auth");
    this.ok(auth, { namespace: "n", operator: true, policy: "p", scope: "", rights: ["Send", "Listen", "Manage"], expires: null, connection: "c-1", ...members });
    return auth;
  }

  /** Expects a request and answers it. */
  async answer(op, members) {
    const request = await this.expect(op);
    this.ok(request, members);
    return request;
  }

  /** Ends the connection as a network does that fails. */
  cut() { this.#socket.terminate(); }
  close(code, reason) { this.#socket.close(code, reason); }
}

/** A gateway on a port of its own, and clients of it, all closed when the test ends. */
export async function start(t) {
  const peers = new Queue();
  const asked = [];
  const web = createServer((request, response) => {
    asked.push(request);
    response.writeHead(426).end();
  });
  const server = new WebSocketServer({ server: web, handleProtocols: (offered) => offered.has(subprotocol) && subprotocol });
  await once(web.listen(0, "127.0.0.1"), "listening");
  server.on("connection", (socket, request) => peers.push(Object.assign(new Peer(socket), { path: request.url })));
  const clients = [];
  t.after(async () => {
    for (const socket of server.clients) socket.terminate();
    await Promise.all(clients.map((c) => c.close()));
    server.close();
    web.close();
    web.closeAllConnections?.();
  });
  const { port } = web.address();
  return {
    port,
    /** The requests over HTTP so far. */
    asked,
    address: `http://127.0.0.1:${port}`,
    /** The next connection. */
    accept: () => peers.next(),
    /** A client, not signed in yet. */
    client(options) {
      const bus = new Crosstown(this.address, { token: "t", WebSocket, reconnect: { minDelay: 0.001 }, ...options });
      clients.push(bus);
      return bus;
    },
    /** A client that is signed in, and its connection. */
    async open(options) {
      const bus = this.client(options);
      const peer = await peers.next();
      await peer.signIn();
      await bus.ready;
      return [bus, peer];
    },
  };
}

let numbers = 0;

/** A message as the gateway delivers it. */
export function message(text, broker) {
  const number = ++numbers;
  return {
    broker: {
      SequenceNumber: number, LockToken: `00000000-0000-0000-0000-${String(number).padStart(12, "0")}`, DeliveryCount: 1,
      LockedUntilUtc: new Date(Date.now() + 60_000).toISOString(), ...broker,
    },
    properties: {},
    text,
  };
}

/** The error that a promise ends with, which must have a code. */
export async function refusal(promise, code) {
  try {
    await promise;
  } catch (e) {
    if (e.code !== code) throw new Error(`got ${e.stack}, want ${code}`);
    return e;
  }
  throw new Error(`got no error, want ${code}`);
}
