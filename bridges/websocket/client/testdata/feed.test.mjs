import assert from "node:assert/strict";
import test from "node:test";
import { Delivery, Message } from "./crosstown.js";
import { message, refusal, start } from "./gateway.mjs";

const soon = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();

/** A feed that is open, and its connection. */
async function open(t, options, answer = {}) {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const feed = bus.receive("a", options);
  const request = await peer.answer("feed", answer);
  await feed.ready;
  const deliver = (...messages) => peer.send({ op: "deliver", feed: request.feed, messages });
  return { gateway, bus, peer, feed, request, deliver };
}

test("messages come in order, and credit as they are read", async (t) => {
  const { peer, feed, request, deliver } = await open(t, { prefetch: 4 });
  assert.deepEqual(request, { op: "feed", id: request.id, feed: 1, entity: "a", mode: "peekLock", credit: 4 });
  deliver(...["1", "2", "3", "4"].map((x) => message(x)));
  const got = [];
  for await (const m of feed) {
    got.push(m.text);
    if (got.length === 2) { // half is read
      const credit = await peer.answer("credit", {});
      assert.equal(credit.credit, 2);
      deliver(message("5"));
    }
    if (got.length === 5) {
      assert.equal((await peer.answer("credit", {})).credit, 2);
      void peer.answer("end", {}); // which follows
      break;
    }
  }
  assert.deepEqual(got, ["1", "2", "3", "4", "5"]);
});

test("a message has its body, properties and lock", async (t) => {
  const { feed, deliver } = await open(t, {});
  const until = soon(60);
  deliver({ broker: { SequenceNumber: 7, MessageId: { $uuid: "u" }, LockToken: "k", LockedUntilUtc: until, Label: "l" }, properties: { n: { $long: "9007199254740993" } }, json: { a: 1 } },
    ...[{ binary: "AQ==" }, { value: { $int: 1 } }, { sequence: [[1]] }, {}, { json: null }].map((body) => ({ ...message(), ...body })));
  const { value: m } = await feed.next();
  assert.ok(m instanceof Delivery && m instanceof Message);
  assert.deepEqual([m.sequenceNumber, m.lockToken, m.lockedUntil, m.body, m.json, m.text, m.properties, String(m.broker.MessageId), m.broker.Label],
    [7, "k", new Date(until), { a: 1 }, { a: 1 }, undefined, { n: 9007199254740993n }, "u", "l"]);
  const bodies = [];
  for (let i = 0; i < 5; i++) bodies.push((await feed.next()).value.body);
  assert.deepEqual(JSON.stringify(bodies), '[{"0":1},{"$int":1},[[1]],null,null]');
});

test("what is settled in one turn is settled in one request, each with its own outcome", async (t) => {
  const { peer, feed, deliver } = await open(t, {});
  deliver(...["1", "2", "3", "4", "5"].map((x) => message(x)));
  const ms = [];
  while (ms.length < 5) ms.push((await feed.next()).value);
  await peer.answer("credit", {});
  const all = [ms[0].complete(), ms[1].abandon({ n: 1n }), ms[2].defer(), refusal(ms[3].deadLetter({ reason: "r", description: "d" }), "lock_lost"), ms[4].release()];
  const request = await peer.expect("settle");
  assert.deepEqual(request, { op: "settle", id: request.id, feed: 1, settlements: [
    { lockToken: ms[0].lockToken, outcome: "complete" },
    { lockToken: ms[1].lockToken, outcome: "abandon", properties: { n: 1 } },
    { lockToken: ms[2].lockToken, outcome: "defer" },
    { lockToken: ms[3].lockToken, outcome: "deadLetter", reason: "r", description: "d" },
    { lockToken: ms[4].lockToken, outcome: "release" },
  ] });
  peer.ok(request, { results: [null, null, null, { code: "lock_lost", text: "gone", retriable: false }, null] });
  await Promise.all(all);
});

test("after a reconnect the feed is open again, and older messages are settled by their tokens", async (t) => {
  const { gateway, peer, feed, deliver } = await open(t, { prefetch: 3 });
  deliver(message("1"), message("2"), message("3"));
  const { value: first } = await feed.next(), { value: second } = await feed.next();
  await peer.expect("credit");
  const unanswered = refusal(first.complete(), "connection_lost");
  await peer.expect("settle");
  peer.cut();
  const { retriable, unknownOutcome } = await unanswered;
  assert.deepEqual([retriable, unknownOutcome], [true, true]);

  const again = await gateway.accept();
  await again.signIn();
  const request = await again.answer("feed", {});
  assert.deepEqual([request.feed, request.credit], [1, 2]); // one waits here
  const settled = [refusal(first.complete(), "lock_lost"), second.complete()];
  const settle = await again.expect("settle");
  assert.deepEqual(settle.settlements.map((s) => s.lockToken), [first.lockToken, second.lockToken]);
  again.ok(settle, { results: [{ code: "lock_lost", text: "It was carried out.", retriable: false }, null] });
  await Promise.all(settled);
  assert.equal((await feed.next()).value.text, "3");
  again.send({ op: "deliver", feed: 1, messages: [message("4")] });
  assert.equal((await feed.next()).value.text, "4");
});

test("a reader that waits does not notice a reconnect", async (t) => {
  const { gateway, peer, feed } = await open(t, { mode: "receiveAndDelete" });
  const waiting = feed.next();
  assert.equal((await peer.answer("credit", {})).credit, 1);
  peer.cut();
  const again = await gateway.accept();
  await again.signIn();
  const request = await again.answer("feed", {});
  assert.deepEqual([request.mode, request.credit], ["receiveAndDelete", 1]);
  again.send({ op: "deliver", feed: 1, messages: [message("x")] });
  const { value } = await waiting;
  assert.deepEqual([value.text, value instanceof Delivery], ["x", false]);
});

test("a settlement that meets the feed's end goes to the entity", async (t) => {
  const { peer, feed, deliver } = await open(t, {});
  deliver(message("x"));
  const { value } = await feed.next();
  const settled = value.complete();
  peer.error(await peer.expect("settle"), "not_found");
  const { entity, feed: none } = await peer.answer("settle", { results: [null] });
  assert.deepEqual([entity, none], ["a", undefined]);
  await settled;
});

test("locks are renewed until their messages are settled", async (t) => {
  const { peer, feed, deliver } = await open(t, {});
  deliver(message("1", { LockedUntilUtc: soon(2) }), message("2", { LockedUntilUtc: soon(2) }));
  const { value: first } = await feed.next(), { value: second } = await feed.next();
  const until = soon(2.5);
  const { entity, lockTokens } = await peer.answer("renew", { results: [{ lockedUntil: until }, { lockedUntil: until }] });
  assert.deepEqual([entity, lockTokens], ["a", [first.lockToken, second.lockToken]]);
  const settled = first.complete();
  await peer.answer("settle", { results: [null] });
  await settled;
  assert.deepEqual(first.lockedUntil, new Date(until));
  const renewal = await peer.expect("renew");
  assert.deepEqual(renewal.lockTokens, [second.lockToken]);
  peer.ok(renewal, { results: [{ code: "lock_lost", text: "gone", retriable: false }] });
  const renewed = refusal(second.renew(), "lock_lost"); // by hand: nothing else came since
  peer.ok(await peer.expect("renew"), { results: [{ code: "lock_lost", text: "gone", retriable: false }] });
  await renewed;
});

test("a lock is renewed while settling may be tried again", async (t) => {
  const { peer, feed, deliver } = await open(t, {});
  deliver(message("1", { LockedUntilUtc: soon(2) }));
  const { value } = await feed.next();
  await assert.rejects(value.abandon({ wrong: () => 1 }), { code: "invalid_argument" });
  const busy = refusal(value.complete(), "busy");
  await peer.answer("settle", { results: [{ code: "busy", text: "Try again.", retriable: true }] });
  await busy;
  await peer.answer("renew", { results: [{ lockedUntil: soon(60) }] });
  const settled = value.complete();
  await peer.answer("settle", { results: [null] });
  await settled;
});

test("locks end by the gateway's clock, whatever the client's own says", async (t) => {
  const gateway = await start(t);
  const bus = gateway.client();
  const peer = await gateway.accept();
  await peer.signIn({ time: soon(3600) });
  const feed = bus.receive("a");
  await peer.answer("feed", {});
  peer.send({ op: "deliver", feed: 1, messages: [message("x", { LockedUntilUtc: soon(3602) }), message("y", { LockedUntilUtc: soon(3590) })] });
  await peer.answer("renew", { results: [{ lockedUntil: soon(3602) }, { code: "lock_lost", text: "gone", retriable: false }] });
  assert.equal((await feed.next()).value.text, "x");
  peer.send({ op: "deliver", feed: 1, messages: [message("z", { LockedUntilUtc: soon(3602) })] });
  assert.equal((await feed.next()).value.text, "z"); // y waited until its lock had ended
});

test("closing gives back what was not read", async (t) => {
  const { peer, feed, deliver } = await open(t, {});
  deliver(message("1"), message("2"), message("3"));
  const { value: first } = await feed.next();
  const settled = first.complete(), closed = feed.close();
  const settle = await peer.expect("settle"); // before the end, so that it counts
  peer.ok(settle, { results: [null] });
  await peer.answer("end", {});
  const released = await peer.answer("settle", { results: [null, null] });
  assert.deepEqual(released.settlements.map((s) => s.outcome), ["release", "release"]);
  assert.equal(released.entity, "a");
  await Promise.all([settled, closed]);
  assert.deepEqual(await feed.next(), { value: undefined, done: true });
});

test("closing returns what was deleted and not read", async (t) => {
  const { peer, feed, deliver } = await open(t, { mode: "receiveAndDelete", prefetch: 5 });
  deliver(message("1"), message("2"));
  await feed.next();
  const closed = feed.close();
  await peer.answer("end", {});
  assert.deepEqual((await closed).map((m) => m.text), ["2"]);
});

test("take asks for so many, and leaves nothing on its way", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const taken = bus.take("a", 5);
  const request = await peer.answer("feed", {});
  assert.equal(request.credit, 0);
  assert.equal((await peer.answer("credit", {})).credit, 5);
  peer.send({ op: "deliver", feed: 1, messages: [message("1")] });
  const drain = await peer.expect("drain");
  peer.send({ op: "deliver", feed: 1, messages: [message("2")] });
  peer.ok(drain, { unspent: 3 });
  await peer.answer("end", {});
  assert.deepEqual((await taken).map((m) => m.text), ["1", "2"]);

  const none = bus.take("a", 5, { wait: 0.01, mode: "receiveAndDelete" });
  await peer.answer("feed", {});
  await peer.answer("credit", {});
  await peer.answer("drain", { unspent: 5 });
  await peer.answer("end", {});
  assert.deepEqual(await none, []);
});

test("a feed that is refused, or ended by the gateway, says why, once", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const refused = bus.receive("nowhere");
  const read = refusal(refused.next(), "not_found");
  peer.error(await peer.expect("feed"), "not_found");
  await Promise.all([read, refusal(refused.ready, "not_found")]);
  assert.deepEqual(await refused.next(), { value: undefined, done: true });

  const feed = bus.receive("a");
  await peer.answer("feed", {});
  peer.send({ op: "deliver", feed: 2, messages: [message("1")] });
  peer.send({ op: "ended", feed: 2, code: "entity_disabled", text: "It is disabled.", retriable: false });
  assert.equal((await feed.next()).value.text, "1"); // its lock outlives the feed
  await refusal(feed.next(), "entity_disabled");
  assert.deepEqual(await feed.next(), { value: undefined, done: true });
});

test("a feed that cannot be opened again at once is tried until it can", async (t) => {
  const { gateway, peer, feed } = await open(t, {});
  peer.cut();
  const again = await gateway.accept();
  await again.signIn();
  again.error(await again.expect("feed"), "busy", { retriable: true });
  await again.answer("feed", {});
  again.send({ op: "deliver", feed: 1, messages: [message("1")] });
  assert.equal((await feed.next()).value.text, "1");
});

test("a session has its state, and its lock is renewed", async (t) => {
  const { peer, feed, request } = await open(t, { nextSession: true, wait: 5 }, { session: "s", lockedUntil: soon(2) });
  assert.deepEqual([request.nextSession, request.wait, feed.session], [true, 5, "s"]);
  const until = soon(60);
  for (const [call, op, members, answer, want] of [
    [() => feed.state(), "state", {}, { state: { $binary: "AQ==" } }, Uint8Array.of(1)],
    [() => feed.state(), "state", {}, { state: null }, null],
    [() => feed.setState("é"), "setState", { state: "é" }, {}, undefined],
    [() => feed.setState(Uint8Array.of(1)), "setState", { state: { $binary: "AQ==" } }, {}, undefined],
    [() => feed.setState(null), "setState", { state: null }, {}, undefined],
    [() => feed.peek({ max: 1 }).then((ms) => ms[0].text), "peek", { max: 1 }, { messages: [message("p")] }, "p"],
    [() => feed.receiveDeferred([7]).then((ms) => ms[0].text), "receiveDeferred", { sequenceNumbers: [7] }, { messages: [message("d")] }, "d"],
  ]) {
    const done = call();
    const { id, ...got } = await peer.answer(op, answer);
    assert.deepEqual(got, { op, feed: 1, ...members });
    assert.deepEqual(await done, want);
  }
  await peer.answer("renewSession", { lockedUntil: until }); // by itself
  const later = feed.state();
  await peer.answer("state", { state: null });
  await later;
  assert.deepEqual(feed.lockedUntil, new Date(until));
});

test("a session is lost with its connection, and the feed says so", async (t) => {
  const { gateway, peer, feed, deliver } = await open(t, { session: "s" }, { session: "s", lockedUntil: soon(60) });
  deliver(message("1"), message("2"));
  const { value: first } = await feed.next();
  peer.cut();
  const again = await gateway.accept();
  await again.signIn();
  await refusal(feed.next(), "session_lock_lost"); // what waited was given back with it
  const settled = refusal(first.complete(), "lock_lost");
  const { entity } = await again.answer("settle", { results: [{ code: "lock_lost", text: "gone", retriable: false }] });
  assert.equal(entity, "a");
  await settled;
  assert.ok(again.quiet);
});

test("a session is handed over, and its former feed settles nothing any more", async (t) => {
  const { gateway, bus, peer, feed, request, deliver } = await open(t, { session: "s", exclusive: false }, { session: "s", lockedUntil: soon(60), sessionLockToken: "t" });
  assert.deepEqual([request.session, request.exclusive, request.sessionLockToken, feed.sessionLockToken], ["s", false, undefined, "t"]);
  deliver(message("1", { LockToken: "k1" }), message("2", { LockToken: "k2" }));
  const { value: first } = await feed.next();
  const next = bus.receive("a", { session: "s", sessionLockToken: "t" });
  const taking = await peer.answer("feed", { session: "s", lockedUntil: soon(60), sessionLockToken: "t" });
  assert.deepEqual([taking.session, taking.exclusive, taking.sessionLockToken], ["s", false, "t"]);
  peer.send({ op: "ended", feed: 1, code: "session_lock_lost", text: "gone", retriable: false });
  const back = await peer.answer("settle", { results: [null] }); // what nobody has read is the next one's
  assert.deepEqual([back.entity, back.feed, back.settlements], ["a", undefined, [{ lockToken: "k2", outcome: "release" }]]);
  await refusal(feed.next(), "session_lock_lost");
  const failed = refusal(first.complete(), "session_lock_lost");
  const former = await peer.expect("settle");
  assert.equal(former.feed, 1);
  peer.error(former, "not_found");
  await failed;
  const settled = next.settle([{ lockToken: "k1", outcome: "complete" }]);
  const later = await peer.answer("settle", { results: [null] });
  assert.deepEqual([later.feed, later.settlements], [2, [{ lockToken: "k1", outcome: "complete" }]]);
  assert.deepEqual(await settled, [null]);
  const purged = next.purge({ max: 3 });
  const purge = await peer.answer("purge", { count: 2 });
  assert.deepEqual([purge.feed, purge.max, await purged], [2, 3, 2]);
  void gateway;
});

test("a session is accepted again if that is wanted, when the gateway has it free", async (t) => {
  const { gateway, peer, feed, deliver } = await open(t, { nextSession: true, wait: 5, reaccept: true }, { session: "s", lockedUntil: soon(60) });
  deliver(message("1"));
  await feed.next();
  const waiting = feed.next();
  peer.cut();
  const again = await gateway.accept();
  await again.signIn();
  again.error(await again.expect("feed"), "session_locked");
  const request = await again.answer("feed", { session: "s", lockedUntil: soon(60) });
  assert.deepEqual([request.session, request.nextSession, request.wait], ["s", undefined, undefined]);
  again.send({ op: "deliver", feed: 1, messages: [message("1")] });
  assert.equal((await waiting).value.text, "1");
  again.send({ op: "ended", feed: 1, code: "session_lock_lost", text: "gone", retriable: false });
  await again.answer("feed", { session: "s", lockedUntil: soon(60) });
  again.send({ op: "deliver", feed: 1, messages: [message("2")] });
  assert.equal((await feed.next()).value.text, "2");
});

test("a feed that is closed at once is never opened", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const feed = bus.receive("a");
  await feed.close();
  await refusal(feed.ready, "closed");
  const asked = bus.entity("a");
  await peer.answer("entity", { entity: {} });
  await asked;
});

test("closing while the gateway looks for a session ends that", async (t) => {
  const gateway = await start(t);
  const [bus, peer] = await gateway.open();
  const feed = bus.receive("a", { nextSession: true });
  const request = await peer.expect("feed");
  const closed = feed.close();
  const end = await peer.expect("end");
  peer.error(request, "timeout", { retriable: true });
  peer.ok(end);
  await closed;
  await refusal(feed.ready, "closed");
});
