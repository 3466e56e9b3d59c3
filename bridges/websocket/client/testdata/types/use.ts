import { Crosstown, CrosstownError, Delivery, Feed, Message, Value, type Entity, type Judgements, type Rights } from "../crosstown.js";

const bus = new Crosstown("https://gate.example", { getToken: async () => "t", reconnect: { maxDelay: 5 } });
const off: () => void = bus.on("open", ({ again, rights }) => console.log(again, rights.includes("Send")));
bus.on("close", ({ retryIn, error }) => console.log(retryIn ?? error.code));
off();

const numbers: number[] = await bus.send("orders", [{ json: { total: 1 }, properties: { n: Value.int(1) } }, "text", new Uint8Array(1)]);
await bus.cancel("orders", await bus.schedule("orders", "later", new Date()));
for await (const m of bus.receive("orders")) {
  const token: string = m.lockToken;
  await m.deadLetter({ reason: token });
}
const feed: Feed<Message> = bus.receive("orders", { mode: "receiveAndDelete" });
const unread: Message[] = await feed.close();
const deliveries: Delivery[] = await bus.take("orders", 5, { wait: 1 });
const entities: Entity[] = await bus.entities("queue");
const { judgements, total, matched }: Judgements = await bus.testRules("events", { text: "x" }, [{ name: "r", filter: { kind: "true" } }]);
const plugins: Response = await bus.fetch("/$crosstown/plugins", { method: "GET" });
const rights: Rights = await bus.signIn("t");
const outcomes: (null | CrosstownError)[] = await bus.settle("orders", [{ lockToken: "k", outcome: "complete" }]);
console.log(numbers, unread, deliveries, entities, judgements, total, matched, plugins, rights, outcomes);
