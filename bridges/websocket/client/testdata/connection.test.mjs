import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import test from "node:test";
import { WebSocket } from "ws";
import { Crosstown, CrosstownError, Value } from "./crosstown.js";
import { message, refusal, start } from "./gateway.mjs";

/** The next event of a kind. */
const event = (bus, type) => new Promise((resolve) => { const off = bus.on(type, (detail) => { off(); resolve(detail); }); });

test("signs in first, and sends then what was asked for meanwhile, in order", async (t) => {
  const gateway = await start(t);
  const bus = gateway.client();
  const opened = event(bus, "open");
  const sent = [bus.send("a", "1"), bus.send("a", "2")];
  const peer = await gateway.accept();
  assert.equal(peer.path, "/$crosstown/ws");
  const auth = await peer.signIn({ expires: "2026-01-31T12:00:00.000Z" });
  assert.deepEqual(auth, { op: "auth", id: auth.id, token: "t" });
  for (const n of ["1", "2"]) {
    const { messages } = await peer.answer("send", { sequenceNumbers: [Number(n)] });
    assert.deepEqual(messages, [{ text: n }]);
  }
  assert.deepEqual(await Promise.all(sent), [[1], [2]]);
  assert.deepEqual(await opened, { connection: "c-1", again: false, namespace: "n", operator: true, policy: "p", scope: "",
    rights: ["Send", "Listen", "Manage"], expires: new Date("2026-01-31T12:00:00Z") });
});

test("a key signs tokens in the client", async (t) => {
  const gateway = await start(t);
  gateway.client({ token: undefined,
    connectionString: "Endpoint=sb://gate.example:5671/;SharedAccessKeyName=a b;SharedAccessKey=k+/=;EntityPath=/orders/" });
  const { token } = await (await gateway.accept()).signIn();
  const [, sr, sig, se, skn] = /^SharedAccessSignature sr=([^&]+)&sig=([^&]+)&se=(\d+)&skn=([^&]+)$/.exec(token);
  assert.equal(decodeURIComponent(sr), "sb://gate.example:5671/orders");
  assert.equal(decodeURIComponent(skn), "a b");
  assert.equal(decodeURIComponent(sig), createHmac("sha256", "k+/=").update(`${sr}\n${se}`).digest("base64"));
  assert.ok(se > Date.now() / 1000 + 60);
});

test("addresses and connection strings that cannot be are refused with the reason", () => {
  for (const [args, reason] of [
    [["http://gate.example"], /Nothing to sign in with/],
    [["Endpoint=sb://gate.example;SharedAccessKeyName=a"], /SharedAccessKey/],
    [["SharedAccessKeyName=a;Endpoint=gate.example;SharedAccessKey=b"], /Endpoint/],
    [["Endpoint=sb://gate.example;x"], /Key=value/],
    [["gate", { token: "t" }], /gate is not an address/],
    [[{ token: "t" }], /No address/],
  ]) {
    assert.throws(() => new Crosstown(...args), (e) => e instanceof CrosstownError && e.code === "invalid_argument" && reason.test(e.text));
  }
});

test("addresses lead to the gateway's WebSocket", async () => {
  const key = "SharedAccessKeyName=a;SharedAccessKey=b";
  for (const [address, options, want] of [
    ["https://gate.example", { token: "t" }, "wss://gate.example/$crosstown/ws"],
    [new URL("http://gate.example:81"), { token: "t" }, "ws://gate.example:81/$crosstown/ws"],
    ["wss://proxy.example/gate", { token: "t" }, "wss://proxy.example/gate"],
    [`Endpoint=sb://gate.example:5671;${key}`, {}, "wss://gate.example:5671/$crosstown/ws"],
    [`Endpoint=sb://gate.example:5672/;${key};UseDevelopmentEmulator=true`, {}, "ws://gate.example:5672/$crosstown/ws"],
    ["http://other.example", { connectionString: `Endpoint=sb://gate.example;${key}` }, "ws://other.example/$crosstown/ws"],
  ]) {
    let got;
    const bus = new Crosstown(address, { ...options, WebSocket: class { constructor(url, protocols) { got = [url, protocols]; } close() {} } });
    assert.deepEqual(got, [want, ["crosstown.v1.json"]]);
    await bus.close();
  }
});

test("a gateway that is not there, and a token that is refused, end it at once", async (t) => {
  const gateway = await start(t);
  const nobody = new Crosstown("http://127.0.0.1:1", { token: "t", WebSocket });
  await refusal(nobody.ready, "connection_lost");
  await refusal(nobody.send("a", "1"), "connection_lost");
  assert.equal(nobody.state, "closed");

  const bus = gateway.client();
  const closed = event(bus, "close");
  const feed = bus.receive("a");
  const peer = await gateway.accept();
  peer.error(await peer.expect("auth"), "unauthorized");
  await refusal(bus.ready, "unauthorized");
  await refusal(feed.next(), "unauthorized");
  assert.equal((await closed).retryIn, null);
});

test("the first connection is tried again if that is wanted", async (t) => {
  const gateway = await start(t);
  const bus = gateway.client({ reconnect: { minDelay: 0.001, initially: true } });
  (await gateway.accept()).cut();
  await (await gateway.accept()).signIn();
  await bus.ready;
});

test("what was sent and not answered is reported, and never sent again", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const closed = event(bus, "close"), reopened = event(bus, "open");
  const send = refusal(bus.send("a", "1"), "connection_lost");
  const create = refusal(bus.create("queue", "b"), "connection_lost");
  const deferred = refusal(bus.receiveDeferred("a", [1], { mode: "receiveAndDelete" }), "connection_lost");
  for (const op of ["send", "create", "receiveDeferred"]) await peer.expect(op);
  peer.cut();
  assert.deepEqual(await Promise.all([send, create, deferred].map((p) => p.then(({ retriable, unknownOutcome }) => ({ retriable, unknownOutcome })))), [
    { retriable: false, unknownOutcome: true }, // again could mean twice
    { retriable: true, unknownOutcome: true }, // again could say already_exists
    { retriable: false, unknownOutcome: true },
  ]);
  const { code, error, retryIn } = await closed;
  assert.deepEqual([code, error.code, retryIn > 0 && retryIn <= 0.001], [1006, "connection_lost", true]);
  const waiting = bus.send("a", "2"); // asked for between two connections
  const second = await gateway.accept();
  await second.signIn();
  assert.equal((await reopened).again, true);
  assert.deepEqual((await second.answer("send", { sequenceNumbers: [2] })).messages, [{ text: "2" }]);
  assert.deepEqual(await waiting, [2]);
  assert.ok(second.quiet);
});

test("what is asked for while the connection closes is sent over the next one", async (t) => {
  const gateway = await start(t);
  const sockets = [];
  const bus = gateway.client({ WebSocket: class extends WebSocket { constructor(...a) { super(...a); sockets.push(this); } } });
  await (await gateway.accept()).signIn();
  await bus.ready;
  sockets[0].close(4000);
  const sent = bus.send("a", "1");
  const peer = await gateway.accept();
  await peer.signIn();
  await peer.answer("send", { sequenceNumbers: [1] });
  assert.deepEqual(await sent, [1]);
});

test("what changes nothing is asked again, and so is what was asked for with retry", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const peeked = bus.peek("a", { from: 5 });
  const sent = bus.send("a", { broker: { MessageId: "m" }, json: 1 }, { retry: true });
  const requests = [await peer.expect("peek"), await peer.expect("send")];
  peer.cut();
  const second = await gateway.accept();
  await second.signIn();
  assert.deepEqual(await second.answer("peek", { messages: [message("x")] }), requests[0]);
  assert.deepEqual(await second.answer("send", { sequenceNumbers: [0] }), requests[1]);
  assert.equal((await peeked)[0].text, "x");
  assert.deepEqual(await sent, [0]);
  await refusal(bus.send("a", ["x"], { retry: true }), "invalid_argument"); // nothing tells a duplicate
});

test("close codes say whether to connect again", async (t) => {
  const gateway = await start(t);
  for (const code of [1001, 1011, 4408]) {
    const [bus, peer] = await gateway.open();
    const closed = event(bus, "close");
    peer.close(code, "why");
    const { code: got, error } = await closed;
    assert.deepEqual([got, error.text], [code, "why"]);
    await (await gateway.accept()).signIn();
  }
  for (const code of [1003, 1007, 1009, 4400, 4401, 4404]) {
    const [bus, peer] = await gateway.open();
    const closed = event(bus, "close"), send = refusal(bus.send("a", "1"), "connection_lost");
    await peer.expect("send");
    peer.close(code);
    assert.equal((await closed).retryIn, null);
    assert.equal((await send).unknownOutcome, true);
    await refusal(bus.send("a", "2"), code === 4401 ? "unauthorized" : "connection_lost");
  }
});

test("it gives up after so many attempts, or at once", async (t) => {
  const gateway = await start(t);
  for (const reconnect of [{ minDelay: 0.001, attempts: 2 }, false]) {
    const [bus, peer] = await gateway.open({ reconnect });
    peer.cut();
    for (let i = 0; i < (reconnect.attempts ?? 0); i++) (await gateway.accept()).cut();
    while (bus.state !== "closed") await event(bus, "close");
    await refusal(bus.request("entity", { entity: "a" }), "connection_lost");
  }
});

test("a token is renewed before it ends, and fresh at each connection", async (t) => {
  const gateway = await start(t);
  let n = 0;
  const bus = gateway.client({ token: undefined, getToken: async () => `t-${++n}` });
  const peer = await gateway.accept();
  assert.equal((await peer.signIn()).token, "t-1");
  peer.send({ op: "expiring", expires: new Date().toISOString() });
  assert.equal((await peer.answer("auth", {})).token, "t-2");
  peer.close(4401);
  const second = await gateway.accept();
  assert.equal((await second.signIn()).token, "t-3");
  await bus.ready;
});

test("without a way to renew a token, it says that it ends; more tokens may be given", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const expiring = event(bus, "expiring");
  peer.send({ op: "expiring", expires: "2026-01-31T12:00:00.000Z" });
  assert.deepEqual(await expiring, { expires: new Date("2026-01-31T12:00:00Z") });
  const rights = bus.signIn("u");
  assert.equal((await peer.answer("auth", { namespace: "n", operator: false, policy: "q", scope: "orders", rights: ["Send"], expires: null })).token, "u");
  assert.deepEqual(await rights, { namespace: "n", operator: false, policy: "q", scope: "orders", rights: ["Send"], expires: null });
  const refused = refusal(bus.signIn("v"), "unauthorized");
  peer.error(await peer.expect("auth"), "unauthorized");
  await refused;
  peer.cut();
  const second = await gateway.accept();
  assert.equal((await second.signIn()).token, "t");
  assert.equal((await second.answer("auth", {})).token, "u");
  const open = bus.entity("a");
  await second.answer("entity", { entity: { name: "a" } });
  assert.deepEqual(await open, { name: "a" });
});

test("several tokens sign in together; one given besides that has ended is let go", async (t) => {
  const gateway = await start(t);
  const bus = gateway.client({ token: ["t", "u"] });
  const peer = await gateway.accept();
  assert.equal((await peer.signIn()).token, "t");
  assert.equal((await peer.signIn({ scope: "orders" })).token, "u");
  await bus.ready;
  const added = bus.signIn("v");
  await peer.signIn({ scope: "events" });
  await added;
  peer.cut();
  for (const ended of [true, false]) { // it is shown again once
    const again = await gateway.accept();
    await again.signIn();
    await again.signIn();
    if (ended) again.error(await again.expect("auth"), "unauthorized");
    const answered = bus.entity("a");
    await again.answer("entity", { entity: {} });
    await answered;
    again.cut();
  }
});

test("a gateway that does not answer is left", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open({ timeout: 0.05 });
  const late = await refusal(bus.send("a", "1"), "timeout");
  assert.deepEqual([late.retriable, late.unknownOutcome], [false, true]);
  await peer.closed;
  await (await gateway.accept()).signIn();
});

test("requests have the form that the protocol gives them", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const when = new Date("2026-01-31T12:00:00Z");
  const rule = { name: "r", filter: { kind: "sql", sql: "a = @p", parameters: { p: Value.int(1) } }, action: "SET b = @q", actionParameters: { q: when } };
  const ruleFrame = { ...rule, filter: { ...rule.filter, parameters: { p: { $int: 1 } } }, actionParameters: { q: { $timestamp: when.toISOString() } } };
  const judgement = { subscription: "s", rule: "r", matched: true, why: ["because"] };
  for (const [call, op, members, answer, want] of [
    [() => bus.send("a", [{ broker: { MessageId: "m", CorrelationId: Value.uuid("u"), ScheduledEnqueueTimeUtc: when }, properties: { n: 1n, d: when }, binary: Uint8Array.of(1) }, { value: [1, 1.5] }, { sequence: [[Value.int(1)]] }, Uint8Array.of(2)]),
      "send", { entity: "a", messages: [{ broker: { MessageId: "m", CorrelationId: { $uuid: "u" }, ScheduledEnqueueTimeUtc: when.toISOString() }, properties: { n: 1, d: { $timestamp: when.toISOString() } }, binary: "AQ==" }, { value: [1, 1.5] }, { sequence: [[{ $int: 1 }]] }, { binary: "Ag==" }] },
      { sequenceNumbers: [1, 2, 3, 4] }, [1, 2, 3, 4]],
    [() => bus.schedule("a", ["x", { json: null, broker: { Label: "l" } }], when), "send",
      { entity: "a", messages: [{ text: "x", broker: { ScheduledEnqueueTimeUtc: when.toISOString() } }, { json: null, broker: { Label: "l", ScheduledEnqueueTimeUtc: when.toISOString() } }] },
      { sequenceNumbers: [1, 2] }, [1, 2]],
    [() => bus.cancel("a", [1, 2]), "cancel", { entity: "a", sequenceNumbers: [1, 2] }, {}, undefined],
    [() => bus.purge("a", { before: when }), "purge", { entity: "a", before: when.toISOString() }, { count: 3 }, 3],
    [() => bus.sessions("a", { since: when, top: 5 }), "sessions", { entity: "a", since: when.toISOString(), top: 5 }, { sessions: ["s"] }, ["s"]],
    [() => bus.entities("subscription", { topic: "t" }), "entities", { kind: "subscription", topic: "t" }, { entities: [] }, []],
    [() => bus.create("subscription", "t/Subscriptions/s", { LockDuration: "PT5S" }, { rule }), "create",
      { kind: "subscription", entity: "t/Subscriptions/s", settings: { LockDuration: "PT5S" }, rule: ruleFrame }, { entity: { name: "s" } }, { name: "s" }],
    [() => bus.update("a", { MaxDeliveryCount: 3 }), "update", { entity: "a", settings: { MaxDeliveryCount: 3 } }, { entity: { name: "a" } }, { name: "a" }],
    [() => bus.delete("a"), "delete", { entity: "a" }, {}, undefined],
    [() => bus.rules("a").then(JSON.stringify), "rules", { entity: "a" }, { rules: [ruleFrame] }, JSON.stringify([rule])],
    [() => bus.createRule("a", rule).then(JSON.stringify), "createRule", { entity: "a", rule: ruleFrame }, { rule: ruleFrame }, JSON.stringify(rule)],
    [() => bus.updateRule("a", { name: "c", filter: { kind: "correlation", correlation: { Label: "l", properties: { n: Value.int(1) } } } }), "updateRule",
      { entity: "a", rule: { name: "c", filter: { kind: "correlation", correlation: { Label: "l", properties: { n: { $int: 1 } } } } } },
      { rule: { name: "c", filter: { kind: "true" } } }, undefined],
    [() => bus.deleteRule("a", "r"), "deleteRule", { entity: "a", name: "r" }, {}, undefined],
    [() => bus.testRules("t", { text: "x" }, [rule]), "testRules", { entity: "t", message: { text: "x" }, rules: [ruleFrame] },
      { judgements: [judgement], total: 7, matched: 3 }, { judgements: [{ ...judgement, message: undefined }], total: 7, matched: 3 }],
    [() => bus.connections(), "connections", {}, { connections: [] }, []],
    [() => bus.renew("a", ["k", "l"]), "renew", { entity: "a", lockTokens: ["k", "l"] },
      { results: [{ lockedUntil: when.toISOString() }, { code: "lock_lost", text: "gone", retriable: false }] }, [when, new CrosstownError("lock_lost", "gone")]],
    [() => bus.settle("a", [{ lockToken: "k", outcome: "complete" }, { lockToken: "l", outcome: "abandon", properties: { n: Value.int(1) } }]), "settle",
      { entity: "a", settlements: [{ lockToken: "k", outcome: "complete" }, { lockToken: "l", outcome: "abandon", properties: { n: { $int: 1 } } }] },
      { results: [null, { code: "lock_lost", text: "gone", retriable: false }] }, [null, new CrosstownError("lock_lost", "gone")]],
  ]) {
    const done = call();
    const { op: gotOp, id, ...got } = await peer.answer(op, answer);
    assert.deepEqual(got, members, gotOp);
    const result = await done;
    if (want !== undefined) assert.deepEqual(result, want, gotOp);
  }
});

test("requests over HTTP have the token, and it goes nowhere else", async (t) => {
  const gateway = await start(t);
  const [bus] = await gateway.open();
  const answer = await bus.fetch("/$crosstown/x?y=1", { method: "POST", body: "{}", headers: { Accept: "application/json" } });
  assert.equal(answer.status, 426);
  assert.deepEqual(gateway.asked.map(({ method, url, headers }) => [method, url, headers.authorization, headers.accept]),
    [["POST", "/$crosstown/x?y=1", "Bearer t", "application/json"]]);
  for (const elsewhere of ["//127.0.0.1:1/x", "https://gate.example/x"]) await refusal(bus.fetch(elsewhere), "invalid_argument");
  const signed = gateway.client({ token: undefined, connectionString: "Endpoint=sb://gate.example;SharedAccessKeyName=a;SharedAccessKey=b" });
  const { token } = await (await gateway.accept()).signIn();
  await signed.fetch("/");
  assert.equal(gateway.asked[1].headers.authorization, token);
  await bus.close();
  await refusal(bus.fetch("/"), "closed");
});

test("what the gateway refuses has its code, text and retriable", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const refused = refusal(bus.send("a", "1"), "busy");
  peer.send({ op: "error", id: (await peer.expect("send")).id, code: "busy", text: "Try again.", retriable: true });
  const { name, text, retriable, unknownOutcome } = await refused;
  assert.deepEqual({ name, text, retriable, unknownOutcome }, { name: "CrosstownError", text: "Try again.", retriable: true, unknownOutcome: false });
  await refusal(bus.send("a", { txt: "misspelt" }), "invalid_argument");
});

test("a received message may be sent again as it is", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const frame = { ...message("x", { MessageId: { $ulong: "7" }, Label: "l" }), properties: { n: { $int: 1 }, b: { $binary: "AQ==" } } };
  const peeked = bus.peek("a");
  await peer.answer("peek", { messages: [frame] });
  const sent = bus.send("b", await peeked);
  assert.deepEqual((await peer.answer("send", { sequenceNumbers: [1] })).messages, [frame]);
  await sent;
});

test("closing waits for what was asked for", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const feed = bus.receive("a");
  await peer.answer("feed", {});
  await feed.ready;
  peer.send({ op: "deliver", feed: 1, messages: [message("x")] });
  const { value } = await feed.next();
  const settled = value.complete(), sent = bus.send("b", "y");
  const closed = bus.close();
  const answers = { settle: { results: [null] }, send: { sequenceNumbers: [1] }, end: {} };
  for (const op of ["send", "settle", "end"]) await peer.answer(op, answers[op]);
  await Promise.all([settled, sent, closed]);
  assert.equal(await peer.closed, 1000);
  assert.deepEqual(await feed.next(), { value: undefined, done: true });
  await refusal(bus.send("b", "z"), "closed");
});
