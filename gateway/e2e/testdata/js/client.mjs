// The client for pages and Node, as the gateway serves it, does all that it can.
import assert from "node:assert/strict";
import { WebSocket } from "ws";
import { Crosstown, Value } from "./served.mjs";

const { STORY_CONNECTION: connection, STORY_QUEUE: queue } = process.env;
const bus = new Crosstown(connection, { WebSocket });
await bus.ready;
const refused = (promise, code) => assert.rejects(promise, { name: "CrosstownError", code });
const next = async (feed) => (await feed.next()).value;

// -- Entities.

const sessions = `${queue}-sessions`, topic = `${queue}-topic`, eu = `${topic}/Subscriptions/eu`;
const created = await bus.create("queue", queue, { LockDuration: "PT30S", MaxDeliveryCount: 3 });
assert.deepEqual([created.kind, created.name, created.settings.LockDuration, created.counts.active], ["queue", queue, "PT30S", 0]);
await refused(bus.create("queue", queue), "already_exists");
assert.equal((await bus.update(queue, { LockDuration: "PT1M" })).settings.LockDuration, "PT1M");
await bus.create("queue", sessions, { RequiresSession: true });
await bus.create("topic", topic);
const rule = { name: "eu", filter: { kind: "sql", sql: "region = @r", parameters: { r: "eu" } }, action: "SET amount = 5" };
await bus.create("subscription", eu, {}, { rule });
const dear = { name: "dear", filter: { kind: "correlation", correlation: { Label: "dear", properties: { tier: Value.int(1) } } } };
await bus.createRule(eu, dear);
await bus.updateRule(eu, { ...dear, filter: { kind: "correlation", correlation: { Label: "very dear", properties: { tier: Value.int(1) } } } });
const rules = await bus.rules(eu);
assert.deepEqual(rules.map((r) => [r.name, r.filter.kind]).sort(), [["dear", "correlation"], ["eu", "sql"]]);
assert.deepEqual(rules.find((r) => r.name === "dear").filter.correlation, { Label: "very dear", properties: { tier: Value.int(1) } });
const { judgements, ...asked } = await bus.testRules(topic, { properties: { region: "eu" } });
assert.deepEqual(judgements.map((j) => [j.rule, j.matched]).sort(), [["dear", false], ["eu", true]]);
assert.equal(judgements.find((j) => j.matched).message.properties.amount, 5);
assert.ok(judgements.every((j) => j.why.length > 0));
assert.deepEqual(asked, { total: 2, matched: 1 });
await bus.deleteRule(eu, "dear");
assert.ok((await bus.entities("queue", { top: 1000 })).some((e) => e.name === queue));
assert.deepEqual((await bus.entities("subscription", { topic })).map((e) => e.kind), ["subscription"]);

// -- Every type of value, in properties and in bodies.

const bytes = Uint8Array.of(0, 1, 254, 255);
const properties = {
  none: null, yes: true, text: "grüß 🚆", long: 9007199254740991, longer: -9223372036854775808n, double: 1.5, whole: Value.double(3), nan: NaN,
  minus: Value.double(-0), huge: Value.double(1e21), int: Value.int(-2147483648), short: Value.short(-32768), byte: Value.byte(-128),
  uint: Value.uint(4294967295), ushort: Value.ushort(65535), ubyte: Value.ubyte(255), ulong: Value.ulong(18446744073709551615n), float: Value.float(0.5),
  decimal: Value.decimal64("00112233aabbccdd"), when: new Date("2026-01-31T12:00:00.123Z"), far: new Date(8.64e15),
  uuid: Value.uuid("00112233-4455-6677-8899-aabbccddeeff"), binary: bytes, symbol: Value.symbol("s"), char: Value.char("é"),
};
const value = {
  ...properties, list: [1, "a", [null]], map: new Map([[1, "one"], [Value.int(2), { k: "v" }]]), tricky: { l: new Map([["$int", 1]]) },
  array: Value.array("int", [1, 2]), longs: Value.array("long", [1, 9007199254740993n]), described: Value.described(Value.symbol("d"), [1]),
};
const bodies = [{ text: "grüß 🚆" }, { json: { total: 12.5, list: [null, true, "x"] } }, { binary: bytes }, { value }, { sequence: [[1, Value.int(2)], ["b"]] }, {}];
const numbers = await bus.send(queue, bodies.map((body, i) => ({
  ...body, properties, broker: { MessageId: `m-${i}`, Label: "l", CorrelationId: Value.uuid("00112233-4455-6677-8899-aabbccddeeff"), To: "t", ReplyTo: "r", ReplyToSessionId: "rs", TimeToLive: 3600 },
})));
assert.equal(numbers.length, bodies.length);
const plain = (v) => (v === 1e21 ? Value.double(1e21) : v); // a huge double needs no tag
const feed = bus.receive(queue);
const copies = [];
for (const [i, body] of bodies.entries()) {
  const m = await next(feed);
  assert.equal(m.sequenceNumber, numbers[i]);
  assert.deepEqual(Object.fromEntries(Object.entries(m.properties).map(([k, v]) => [k, plain(v)])), properties);
  const { text, json, binary, value, sequence, broker } = m;
  const got = { text, json, binary, value: value && Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)])), sequence };
  assert.deepEqual(got, { text: undefined, json: undefined, binary: undefined, value: undefined, sequence: undefined, ...(i === 5 ? { binary: got.binary } : body) });
  assert.deepEqual([broker.MessageId, broker.Label, String(broker.CorrelationId), broker.To, broker.ReplyTo, broker.ReplyToSessionId, broker.TimeToLive, broker.DeliveryCount],
    [`m-${i}`, "l", "00112233-4455-6677-8899-aabbccddeeff", "t", "r", "rs", 3600, 1]);
  copies.push(m);
}
await bus.send(queue, copies); // as they are
await Promise.all(copies.map((m) => m.complete()));
for (const original of copies) {
  const copy = await next(feed);
  assert.deepEqual([copy.properties, copy.body, copy.broker.MessageId], [original.properties, original.body, original.broker.MessageId]);
  await copy.complete();
}
await refused(copies[0].complete(), "lock_lost");

// -- Every way to settle.

await bus.send(queue, ["abandoned", "released", "deferred", "dead", "renewed"]);
const by = {};
for (let i = 0; i < 5; i++) {
  const m = await next(feed);
  by[m.text] = m;
}
await Promise.all([by.abandoned.abandon({ seen: Value.int(1) }), by.released.release(), by.deferred.defer({ why: "later" }), by.dead.deadLetter({ reason: "r", description: "d" })]);
const again = [await next(feed), await next(feed)].sort((a, b) => a.text.localeCompare(b.text));
assert.deepEqual(again.map((m) => [m.text, m.broker.DeliveryCount, m.properties]), [["abandoned", 2, { seen: Value.int(1) }], ["released", 1, {}]]);
await Promise.all(again.map((m) => m.complete()));
assert.ok(await by.renewed.renew() > new Date());
assert.deepEqual(await bus.settle(queue, [{ lockToken: by.renewed.lockToken, outcome: "complete" }]), [null]);
const [deferred] = await bus.receiveDeferred(queue, [by.deferred.sequenceNumber]);
assert.deepEqual([deferred.text, deferred.properties.why], ["deferred", "later"]);
await deferred.complete();
await feed.close();
const [dead] = await bus.take(`${queue}/$DeadLetterQueue`, 5, { wait: 10 });
assert.deepEqual([dead.text, dead.properties.DeadLetterReason, dead.properties.DeadLetterErrorDescription], ["dead", "r", "d"]);
await dead.complete();
assert.deepEqual(await bus.take(queue, 1, { wait: 0.1 }), []);

// -- Later, looking, deleting.

const later = await bus.schedule(queue, ["a", "b"], new Date(Date.now() + 3600_000));
assert.deepEqual((await bus.peek(queue)).map((m) => [m.text, m.broker.State]), [["a", "Scheduled"], ["b", "Scheduled"]]);
await bus.cancel(queue, later);
await refused(bus.cancel(queue, later), "message_not_found");
await bus.send(queue, ["1", "2", "3"]);
const [gone] = await bus.take(queue, 1, { mode: "receiveAndDelete" });
assert.equal(gone.text, "1");
assert.equal(await bus.purge(queue), 2);
assert.equal((await bus.entity(queue)).counts.active, 0);

// -- What is not read when a feed is closed goes back, uncounted.

await bus.send(queue, ["1", "2", "3"]);
const brief = bus.receive(queue);
await (await next(brief)).complete();
await brief.close();
const back = await bus.take(queue, 5, { wait: 10, bodies: "binary" });
while (back.length < 2) back.push(...await bus.take(queue, 5, { wait: 10, bodies: "binary" }));
assert.deepEqual(back.map((m) => [String.fromCharCode(...m.binary), m.broker.DeliveryCount]), [["2", 1], ["3", 1]]);
await Promise.all(back.map((m) => m.complete()));

// -- Sessions and subscriptions.

await bus.send(sessions, ["x", "y"].map((text) => ({ text, broker: { SessionId: "s" } })));
assert.deepEqual(await bus.sessions(sessions), ["s"]);
const session = bus.receive(sessions, { nextSession: true, wait: 10 });
await session.ready;
assert.equal(session.session, "s");
await refused(bus.receive(sessions, { session: "s" }).ready, "session_locked");
assert.equal(await session.state(), null);
await session.setState("state");
assert.equal(new TextDecoder().decode(await session.state()), "state");
assert.deepEqual((await session.peek()).map((m) => m.text), ["x", "y"]);
await (await next(session)).complete();
await (await next(session)).complete();
await session.setState(null);
assert.ok(await session.renew() > new Date());
await session.close();
await bus.send(sessions, [{ text: "1", broker: { SessionId: "S" } }, { text: "2", broker: { SessionId: "" } }, { text: "3", broker: { SessionId: "s" } }]);
assert.deepEqual(await bus.sessions(sessions), ["", "S"]); // sorted by id in lower case, spelled as the first message has it
for (const [id, wanted] of [["", [["2", ""]]], ["s", [["1", "S"], ["3", "s"]]]]) {
  const feed = bus.receive(sessions, { session: id });
  await feed.ready;
  assert.equal(feed.session, id);
  await refused(bus.receive(sessions, { session: id.toUpperCase() }).ready, "session_locked");
  for (const [text, SessionId] of wanted) {
    const m = await next(feed);
    assert.deepEqual([m.text, m.broker.SessionId], [text, SessionId]);
    await m.complete();
  }
  await feed.close();
}
await refused(bus.receive(sessions, { nextSession: true, wait: 0.1 }).next(), "timeout");

// One feed hands its session over to another.
await bus.send(sessions, ["x", "y", "z"].map((text) => ({ text, broker: { SessionId: "s" } })));
const former = bus.receive(sessions, { session: "s", exclusive: false, prefetch: 0 });
const handed = await next(former);
assert.equal(handed.text, "x");
const holder = bus.receive(sessions, { session: "s", sessionLockToken: former.sessionLockToken });
await holder.ready;
assert.equal(holder.sessionLockToken, former.sessionLockToken);
await refused(former.next(), "session_lock_lost");
await refused(handed.complete(), "session_lock_lost");
assert.deepEqual(await holder.settle([{ lockToken: handed.lockToken, outcome: "complete" }]), [null]);
const rest = [await next(holder), await next(holder)];
assert.deepEqual(rest.map((m) => m.text), ["y", "z"]);
for (const m of rest) await m.complete();
await bus.send(sessions, { text: "w", broker: { SessionId: "s" } });
assert.equal((await next(holder)).text, "w");
assert.equal(await holder.purge(), 0); // what is locked stays
await holder.close();
assert.equal(await bus.receive(sessions, { session: "s", prefetch: 0 }).purge(), 1);
await bus.send(topic, [{ text: "in", properties: { region: "eu" } }, { text: "out", properties: { region: "us" } }]);
const [matched, ...none] = await bus.take(eu, 5, { wait: 10 });
assert.deepEqual([matched.text, matched.properties.amount, none.length], ["in", 5, 0]);
await matched.complete();

// -- Rights, errors, who is there.

await refused(bus.send("nowhere", "x"), "not_found");
await refused(bus.receive("nowhere").next(), "not_found");
await refused(bus.send(queue, { text: "a", json: "b" }), "invalid_argument");
const wrong = new Crosstown(connection.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=wrong"), { WebSocket });
await refused(wrong.ready, "unauthorized");
assert.ok((await bus.connections()).some((c) => c.links !== undefined && c.id));

for (const name of [queue, sessions, topic]) await bus.delete(name);
await refused(bus.entity(queue), "not_found");
await bus.close();
console.log("told");
