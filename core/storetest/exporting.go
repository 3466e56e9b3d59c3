package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func (s *fixture) backups() core.Backups {
	s.Helper()
	b, ok := s.store.(core.Backups)
	if !ok {
		s.Fatalf("%T exports nothing", s.store)
	}
	return b
}

func (s *fixture) export(r core.Ref) (all []core.Stored) {
	s.Helper()
	err := s.backups().Export(s.Context(), r, func(x *core.Stored) error {
		all = append(all, *x)
		return nil
	})
	if err != nil {
		s.Fatalf("export: %v", err)
	}
	return all
}

// stream yields things and then, if end is not nil, the error end.
func stream(things []core.Stored, end error) iter.Seq2[*core.Stored, error] {
	return func(yield func(*core.Stored, error) bool) {
		for i := range things {
			if !yield(&things[i], nil) {
				return
			}
		}
		if end != nil {
			yield(nil, end)
		}
	}
}

func (s *fixture) tryImport(r core.Ref, things []core.Stored) error {
	return s.backups().Import(s.Context(), r, stream(things, nil))
}

func wantStored(t testing.TB, what string, got, want []core.Stored) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if diff := diffStored(&got[i], &want[i]); diff != "" {
			t.Fatalf("%s: thing %d: %s", what, i, diff)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: got %d things, want %d", what, len(got), len(want))
	}
}

func diffStored(got, want *core.Stored) string {
	plain := func(x *core.Stored) string {
		return fmt.Sprintf("kind %d of %q, sub-queue %d: in session %v, last %d, session %q, state %q (%v), key %q, time %v",
			x.Kind, x.Subscription, x.Sub, x.InSession, x.Last, x.Session, x.SessionState, x.SessionState == nil, x.Key, x.Time)
	}
	if plain(got) != plain(want) {
		return fmt.Sprintf("got %s, want %s", plain(got), plain(want))
	}
	if got.Kind != core.StoredMessage {
		return ""
	}
	return diffDelivery(got.Delivery, want.Delivery)
}

// moveTo imports an export of the partition into a new entity. The partition's index, and so the
// sequence numbers, stay the same.
func (s *fixture) moveTo(name, id string) {
	s.Helper()
	things := s.export(s.main.Ref)
	e := s.create(newEntity(name, id))
	r := core.Ref{Entity: e.ID, Index: fixtureIndex}
	s.wantCode("import", s.tryImport(r, things), "")
	wantStored(s, "what was imported, exported again", s.export(r), things)
	s.main.Entity = e.ID
}

// copyPrefix makes the IDs of subscriptions unique without changing their order.
const copyPrefix = "c"

func renamed(things []core.Stored) []core.Stored {
	things = slices.Clone(things)
	for i := range things {
		if x := &things[i]; x.Subscription != "" {
			x.Subscription = copyPrefix + x.Subscription
		}
	}
	return things
}

var exportStories = []story{
	{"an empty partition is exported and imported", func(s *fixture) {
		s.moveTo("Copy", "q2")
		want(s, "number", s.send(text("a"))[0], number(1))
		s.wantBodies("copy", s.lock(1), "a")
	}},
	{"messages in every state survive an export", func(s *fixture) {
		s.main.DuplicateWindow = time.Hour
		s.sendTexts("complete", "locked", "again", "deferred", "locked deferred", "dead", "delayed")
		ds := s.lock(7)
		s.settle(ds[0], core.Complete)
		s.settle(ds[2], core.Abandon, properties(s, "k", "v"))
		s.settle(ds[3], core.Defer, properties(s, "why", "later"))
		s.settle(ds[4], core.Defer)
		s.settle(ds[5], core.DeadLetterOutcome, properties(s, core.PropertyDeadLetterReason, "broken", core.PropertyDeadLetterDescription, "why"))
		s.putOff(s.main, ds[6], wait(time.Minute))
		s.lockDeferred(ds[4].SequenceNumber)
		transfer := sub(s.main, core.Transfer)
		s.sendTo(transfer, text("to transfer dead letters", destined("there")))
		s.settleAt(transfer, s.lockOneAt(transfer), core.DeadLetterOutcome)
		s.sendTo(transfer, text("in transfer", destined("there")))
		scheduled := s.send(text("scheduled", s.after(time.Hour), ttl(time.Minute)))[0]
		s.send(text("expires", ttl(2*time.Hour), id("x")), text("fresh", key("k")))

		s.moveTo("Copy", "q2")
		s.wantStats("queue", s.main, core.Stats{Ready: 5, Deferred: 2, Scheduled: 1})
		s.wantStats("dead letters", s.dead(), core.Stats{Ready: 1})
		s.wantEnqueued("queue", s.main, 10)
		got := s.lock(9)
		s.wantBodies("queue", got, "locked", "again", "delayed", "expires", "fresh")
		want(s, "number of what was locked", got[0].SequenceNumber, ds[1].SequenceNumber)
		want(s, "count of what was locked", got[0].DeliveryCount, 0)
		want(s, "count of what was abandoned", got[1].DeliveryCount, 1)
		v, _ := got[1].Properties.Get("k")
		want(s, "property that an abandon has set", v, any("v"))
		later := s.lockDeferred(ds[3].SequenceNumber, ds[4].SequenceNumber)
		s.wantBodies("deferred", later, "deferred", "locked deferred")
		want(s, "count of what was deferred", later[0].DeliveryCount, 1)
		s.wantReason("dead letter", s.lockOneAt(s.dead()), "broken", "why")
		transfer.Entity = s.main.Entity
		moving := s.lockAt(transfer, 9)
		s.wantBodies("in transfer", moving, "in transfer")
		want(s, "destination", moving[0].Transit.Destination, "there")
		s.wantBodies("transfer dead letters", s.lockAt(sub(s.main, core.TransferDeadLetter), 9), "to transfer dead letters")
		for _, d := range got {
			s.settle(d, core.Complete)
		}
		want(s, "number of a duplicate", s.send(text("duplicate", id("x")))[0], 0)
		want(s, "number", s.send(text("new"))[0], number(11))
		s.wantBodies("new", s.lock(9), "new")
		want(s, "scheduled", scheduled, number(8))
		s.clock.Advance(time.Hour)
		s.wantBodies("activated", s.lock(1), "new") // its lock has ended
		s.wantBodies("activated", s.lock(1), "scheduled")
	}},
	{"an imported dead letter waits as after a first failure", func(s *fixture) {
		s.sendTexts("x")
		for range 2 {
			s.settle(s.lockOne(), core.Abandon)
		}
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		s.moveTo("Copy", "q2")
		d := s.lockOneAt(s.dead())
		want(s, "delivery count", d.DeliveryCount, 2)
		s.putOff(s.dead(), d, core.Backoff{First: time.Second, Factor: 2})
		want(s, "delivery count", s.wantWait(s.dead(), time.Second).DeliveryCount, 2)
	}},
	{"an imported schedule can be cancelled, and imported messages expire", func(s *fixture) {
		s.main.DeadLetterExpired = true
		n := s.send(text("scheduled", s.after(time.Hour)))
		s.send(text("expires", ttl(time.Minute)))
		s.moveTo("Copy", "q2")
		s.wantCode("cancel", s.main.In(s.store).Cancel(s.Context(), n), "")
		s.clock.Advance(time.Minute)
		s.wantBodies("queue", s.lock(9))
		s.wantReason("expired", s.lockOneAt(s.dead()), core.ReasonExpired, core.DescriptionExpired)
	}},
	{"keys of moves survive an export", func(s *fixture) {
		s.send(text("a", from("key")))
		s.moveTo("Copy", "q2")
		want(s, "number", s.send(text("again", from("key")))[0], 0)
		s.forget(s.main, "key")
		want(s, "number", s.send(text("new", from("key")))[0], number(2))
	}},
	{"sessions survive an export", withSessions(func(s *fixture) {
		s.sendIn("A", "a1", "a2", "a3")
		s.sendIn("b", "b1")
		l := s.accept("A")
		first := s.lockOneIn(l)
		s.settle(first, core.Defer)
		n := first.SequenceNumber
		s.lockIn(l, 1)
		s.setState(l, []byte("state of a"))
		empty := s.accept("Only State")
		s.setState(empty, []byte{})
		s.send(text("scheduled", in("c"), s.after(time.Hour)))

		s.moveTo("Copy", "q2")
		s.wantSessionCounts("copy", s.main, 0, 2)
		s.wantSessions("sessions", time.Time{}, "", 9, "A", "b", "Only State")
		l = s.acceptNext("A")
		s.wantState("state", l, []byte("state of a"))
		s.wantState("empty state", s.accept("only state"), []byte{})
		s.wantBodies("session", s.lockIn(l, 9), "a2", "a3")
		s.wantBodies("deferred in the session", s.lockDeferredIn(l, n), "a1")
		s.wantBodies("other session", s.lockIn(s.acceptNext("b"), 9), "b1")
		s.clock.Advance(time.Hour)
		s.acceptNext("A") // all locks have ended
		s.acceptNext("b")
		s.wantBodies("activated", s.lockIn(s.acceptNext("c"), 9), "scheduled")
	})},
	{"a topic is exported with its subscriptions", onTopic(func(p *press) {
		p.topic.DuplicateWindow = time.Hour
		p.publish(p.to(text("both", id("1")), "a", "b"), p.to(text("one", id("2")), "a"))
		p.settleAt(p.at("b"), p.lockOneAt(p.at("b")), core.DeadLetterOutcome, properties(p, core.PropertyDeadLetterReason, "broken", core.PropertyDeadLetterDescription, "why"))
		p.publish(core.Publication{Message: text("scheduled", p.after(time.Hour))})
		things := renamed(p.export(p.topic.Ref))

		e := p.create(newTopic("Copy", "t2"))
		x := newSubscription(e, "a")
		x.ID = copyPrefix + "t1a"
		p.create(x)
		copied := p.topic.Ref
		copied.Entity = e.ID
		p.wantCode("import without one of the subscriptions", p.tryImport(copied, things), core.NotFound)
		p.deleteEntity(e.Name)
		e = p.create(newTopic("Copy2", "t3"))
		for _, name := range []string{"a", "b", "c"} {
			x := newSubscription(e, name)
			x.ID = copyPrefix + "t1" + name
			p.create(x)
		}
		v, err := p.store.Topic(p.Context(), "ns", "copy2")
		p.wantCode("topic", err, "")
		p.version = v.Version
		at := func(q core.Partition) core.Partition {
			q.Entity = e.ID
			if q.Subscription != "" {
				q.Subscription = copyPrefix + q.Subscription
			}
			return q
		}
		p.topic = at(p.topic)
		p.wantCode("import", p.tryImport(p.topic.Ref, things), "")
		wantStored(p, "topic", p.export(p.topic.Ref), things)
		a, b := at(p.at("a")), at(p.at("b"))
		got := p.lockAt(a, 9)
		p.wantBodies("a", got, "both", "one")
		want(p.fixture, "number of the publication", got[1].EnqueuedSequenceNumber, number(2))
		p.wantReason("b", p.lockOneAt(sub(b, core.DeadLetter)), "broken", "why")
		again, fresh := text("again", id("1")), text("new", id("3"))
		want(p.fixture, "number of a duplicate", p.publish(core.Publication{Message: again, Copies: []core.Copy{{To: &a, Message: again}}})[0], 0)
		want(p.fixture, "number", p.publish(core.Publication{Message: fresh, Copies: []core.Copy{{To: &a, Message: fresh}}})[0], number(4))
		p.wantBodies("a", p.lockAt(a, 9), "new")
		p.clock.Advance(time.Hour)
		p.wantBodies("due", []core.Delivery{p.lockOneAt(p.topic)}, "scheduled")
	})},
	{"the namespaces that have entities are listed", func(s *fixture) {
		other := newEntity("Other", "q2")
		other.Namespace = "another"
		s.create(other)
		ids, err := s.backups().NamespaceIDs(s.Context())
		s.wantCode("list", err, "")
		want(s, "namespaces", fmt.Sprint(ids), "[another ns]")
		s.deleteEntity(s.entity.Name)
		ids, err = s.backups().NamespaceIDs(s.Context())
		s.wantCode("list", err, "")
		want(s, "namespaces", fmt.Sprint(ids), "[another]")
	}},
	{"a message keeps all that it has", func(s *fixture) {
		m := text("body")
		m.MessageID, m.CorrelationID, m.UserID = core.StringID("id"), core.StringID("c"), []byte{0, 255}
		m.Priority, m.Durable, m.WasScheduled = value.Some[uint8](7), value.Some(false), true
		m.Footer, m.EmptyText = []byte{0xd1, 0, 0, 0, 4, 0, 0, 0, 0}, core.FieldReplyTo
		m.Transit = &core.Transit{EnqueuedSequenceNumber: 77, DeadLetterSource: "source", Hops: 3}
		m.Properties = mustProperties("int", int32(1), "long", int64(1), "flag", true)
		s.send(m, text("none", func(m *core.Message) { m.Body = core.Body{Kind: core.BodyNone} }))
		s.moveTo("Copy", "q2")
	}},
	{"a partition that is not empty is not imported into", withSessions(func(s *fixture) {
		s.sendIn("a", "there")
		things := s.export(s.main.Ref)
		s.wantCode("import into what has messages", s.tryImport(s.main.Ref, things), core.AlreadyExists)
		s.clear(s.main)
		s.wantCode("import into what had messages", s.tryImport(s.main.Ref, things), core.AlreadyExists)
		s.main.Entity = s.create(newEntity("Stateful", "q2")).ID
		l := s.accept("a")
		s.setState(l, []byte("kept"))
		s.release(l)
		s.wantCode("import into what has a session", s.tryImport(s.main.Ref, things), core.AlreadyExists)
		s.wantState("state", s.accept("a"), []byte("kept"))
	})},
	{"an unknown entity is neither exported nor imported into", func(s *fixture) {
		r := core.Ref{Entity: "none"}
		s.wantCode("export", s.backups().Export(s.Context(), r, func(*core.Stored) error { return nil }), core.NotFound)
		s.wantCode("import", s.tryImport(r, nil), core.NotFound)
		s.wantCode("import for an unknown subscription",
			s.tryImport(s.main.Ref, []core.Stored{{Kind: core.StoredLast, Subscription: "none", Last: 1}}), core.NotFound)
	}},
	{"an export and an import end with the caller's error", func(s *fixture) {
		s.sendTexts("a", "b")
		stop := errors.New("stop")
		calls := 0
		err := s.backups().Export(s.Context(), s.main.Ref, func(*core.Stored) error {
			calls++
			return stop
		})
		want(s, "the caller's error", errors.Is(err, stop), true)
		want(s, "calls", calls, 1)
		s.wantBodies("the partition is free again", s.lock(2), "a", "b")
		e := s.create(newEntity("Copy", "q2"))
		err = s.backups().Import(s.Context(), core.Ref{Entity: e.ID, Index: fixtureIndex}, stream(s.export(s.main.Ref), stop))
		want(s, "the source's error", errors.Is(err, stop), true)
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		err = s.backups().Export(ctx, s.main.Ref, func(*core.Stored) error { return nil })
		want(s, "a cancelled export", errors.Is(err, context.Canceled), true)
	}},
	{"more than one step's messages survive an export", func(s *fixture) {
		const n = 1300
		body := bytes.Repeat([]byte("x"), 3000)
		for range n / 100 {
			s.send(slices.Repeat([]*core.Message{{Body: core.Body{Bytes: body}}}, 100)...)
		}
		s.settle(s.lockOne(), core.Complete)
		s.moveTo("Copy", "q2")
		s.wantStats("copy", s.main, core.Stats{Ready: n - 1})
		want(s, "first", s.lockOne().SequenceNumber, number(2))
	}},
}
