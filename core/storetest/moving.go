package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// from returns a function that sets the Transit.Key of a message.
func from(key string) func(*core.Message) {
	return func(m *core.Message) { m.Transit = &core.Transit{Key: key} }
}

func brings(t core.Transit) func(*core.Message) {
	return func(m *core.Message) { m.Transit = &t }
}

func (s *fixture) forget(p core.Partition, keys ...string) {
	s.Helper()
	s.wantCode("forget", p.In(s.store).Forget(s.Context(), keys), "")
}

var moveStories = []story{
	{"a move happens once", func(s *fixture) {
		want(s, "number", s.send(text("a", from("q/1")))[0], number(1))
		want(s, "number of the repeated", s.send(text("again", from("q/1")))[0], 0)
		ns := s.send(text("b", from("q/2")), text("c", from("q/1")), text("d", from("q/2")), text("e"))
		for i, n := range []int64{number(2), 0, 0, number(3)} {
			want(s, "number in a group", ns[i], n)
		}
		s.wantBodies("messages", s.lock(9), "a", "b", "e")
		s.settle(s.relockFirst(), core.Complete)
		want(s, "number after the message is gone", s.send(text("again", from("q/1")))[0], 0)
	}},
	{"a move that is forgotten can happen again", func(s *fixture) {
		s.send(text("a", from("1")), text("b", from("2")))
		s.forget(s.main, "1", "nosuch", "1")
		want(s, "number of the forgotten", s.send(text("c", from("1")))[0], number(3))
		want(s, "number of the other", s.send(text("d", from("2")))[0], 0)
		want(s, "number of the repeated", s.send(text("e", from("1")))[0], 0)
		s.forget(s.main)
		s.forget(core.Partition{Ref: core.Ref{Entity: "nosuch"}}, "1")
	}},
	{"a move is known for a day", func(s *fixture) {
		s.send(text("a", from("1")))
		s.clock.Advance(time.Hour)
		s.send(text("b", from("2")))
		s.clock.Advance(core.KeyLife - time.Hour - time.Millisecond)
		want(s, "number one millisecond early", s.send(text("c", from("1")))[0], 0)
		s.clock.Advance(time.Millisecond)
		want(s, "number after a day", s.send(text("d", from("1")))[0], number(3))
		want(s, "number of the other", s.send(text("e", from("2")))[0], 0)
		s.clock.Advance(core.KeyLife - time.Millisecond)
		want(s, "number within the second day", s.send(text("f", from("1")))[0], 0)
	}},
	{"a move that was forgotten and happened again is known from then on", func(s *fixture) {
		s.send(text("a", from("1")))
		s.clock.Advance(time.Hour)
		s.forget(s.main, "1")
		s.send(text("b", from("1")))
		s.clock.Advance(core.KeyLife - time.Millisecond)
		want(s, "number within the second day", s.send(text("c", from("1")))[0], 0)
		s.clock.Advance(time.Millisecond)
		want(s, "number after it", s.send(text("d", from("1")))[0], number(3))
	}},
	{"partitions know moves apart", func(s *fixture) {
		s.send(text("a", from("1")))
		other := s.main
		other.Index = 0
		want(s, "number in another partition", s.sendTo(other, text("b", from("1")))[0], core.SequenceNumber(0, 1))
		s.forget(other, "1")
		want(s, "number in the first", s.send(text("c", from("1")))[0], 0)
	}},
	{"a move to a full partition is refused, but not its repetition", func(s *fixture) {
		s.main.MaxBytes = 500
		big := string(make([]byte, 1000))
		s.send(text(big, from("1")), text(big, from("2")))
		a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{
			{text("a", from("1"))}, {text("b", from("3"))}, {text("c", from("2")), text("d", from("3"))}, {text("e", from("2")), text("f", from("1"))},
		})
		for i, code := range []core.Code{"", core.QuotaExceeded, core.QuotaExceeded, ""} {
			s.wantCode(fmt.Sprintf("group %d", i), a[i].Err, code)
		}
		for _, d := range s.lock(9) {
			s.settle(d, core.Complete)
		}
		want(s, "number of the refused once there is room", s.send(text("g", from("3")))[0], number(3))
	}},
	{"the key of a duplicate is known too", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", id("x")))
		want(s, "number of the duplicate", s.send(text("b", id("x"), from("1")))[0], 0)
		s.clock.Advance(time.Hour)
		want(s, "number of the repeated", s.send(text("c", id("x"), from("1")))[0], 0)
		want(s, "number of another message of that id", s.send(text("d", id("x")))[0], number(2))
	}},
	{"the id of a repeated move is not looked at", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", from("1")))
		s.send(text("b", from("1"), id("x")))
		want(s, "number of that id", s.send(text("c", id("x")))[0], number(2))
	}},
	{"a moved message can be scheduled, once", func(s *fixture) {
		s.send(text("a", from("1"), s.after(time.Second)))
		want(s, "number of the repeated", s.send(text("b", from("1"), s.after(time.Second)))[0], 0)
		s.clock.Advance(time.Second)
		s.wantBodies("messages", s.lock(9), "a")
	}},
	{"a message keeps what it brings along, but its key", func(s *fixture) {
		t := core.Transit{
			EnqueuedSequenceNumber: core.SequenceNumber(7, 123), DeadLetterSource: "Orders/$DeadLetterQueue", Hops: 3, Destination: "Elsewhere",
		}
		keyed := t
		keyed.Key = "1"
		s.send(text("a", brings(keyed), ttl(time.Hour)))
		wanted := func(d core.Delivery) {
			s.Helper()
			want(s, "transit", transitOf(d.Message), t)
			want(s, "number at the first point", d.EnqueuedSequenceNumber, t.EnqueuedSequenceNumber)
			want(s, "dead-letter source", d.DeadLetterSource, t.DeadLetterSource)
		}
		wanted(s.peek(s.main)[0])
		d := s.lockOne()
		wanted(d)
		s.settle(d, core.Abandon, properties(s, "k", "v"))
		d = s.lockOne()
		wanted(d)
		s.settle(d, core.Defer)
		d = s.lockDeferred(d.SequenceNumber)[0]
		wanted(d)
		s.settle(d, core.DeadLetterOutcome, properties(s, "k", "w"))
		d = s.lockOneAt(s.dead())
		wanted(d)
		want(s, "own number", d.SequenceNumber, number(1))
	}},
	{"a scheduled message keeps what it brings along", func(s *fixture) {
		t := core.Transit{EnqueuedSequenceNumber: 99, DeadLetterSource: "q", Hops: 1}
		s.send(text("a", brings(t), s.after(time.Second)))
		d := s.peek(s.main)[0]
		want(s, "scheduled: number at the first point", d.EnqueuedSequenceNumber, 99)
		want(s, "scheduled: transit", transitOf(d.Message), t)
		s.clock.Advance(time.Second)
		d = s.lockOne()
		want(s, "due: number at the first point", d.EnqueuedSequenceNumber, 99)
		want(s, "due: dead-letter source", d.DeadLetterSource, "q")
		want(s, "due: transit", transitOf(d.Message), t)
	}},
	{"without a number of its own first point a message begins here", func(s *fixture) {
		s.send(text("x"), text("a", brings(core.Transit{Hops: 4})))
		d := s.lock(2)[1]
		want(s, "number at the first point", d.EnqueuedSequenceNumber, number(2))
		want(s, "hops", transitOf(d.Message).Hops, 4)
	}},
	{"a moved message joins its session, once", withSessions(func(s *fixture) {
		s.send(text("a", in("x"), from("1")), text("b", in("x"), from("1")))
		l := s.acceptNext("x")
		s.wantBodies("messages", s.lockIn(l, 9), "a")
		s.send(text("c", in("x"), from("1")))
		s.wantBodies("repeated", s.lockIn(l, 9))
	})},
	{"a publication that comes from a move happens once", onTopic(func(p *press) {
		x := p.to(text("1", from("1")), "a", "b")
		want(p.fixture, "number", p.publish(x)[0], number(1))
		want(p.fixture, "number of the repeated", p.publish(x)[0], 0)
		p.wantCopies("published", map[string]string{"a": "1", "b": "1"})
		p.topic.MaxBytes = 1
		want(p.fixture, "number of the repeated in a full topic", p.publish(x)[0], 0)
		p.wantCode("another, and the repeated", p.tryPublish(x, p.to(text("2", from("2")), "a")).Err, core.QuotaExceeded)
		p.topic.MaxBytes = 0
		p.forget(p.topic, "1")
		want(p.fixture, "number of the forgotten", p.publish(x)[0], number(2))
		want(p.fixture, "transit of the copy", transitOf(p.peek(p.at("a"))[0].Message), core.Transit{})
	})},
	{"a copy has the number of its first point", onTopic(func(p *press) {
		t := core.Transit{EnqueuedSequenceNumber: core.SequenceNumber(5, 77), DeadLetterSource: "q", Hops: 2}
		p.publish(p.to(text("0")), p.to(text("1", brings(t)), "a"), p.to(text("2", brings(core.Transit{Hops: 1})), "a"))
		ds := p.lockAt(p.at("a"), 2)
		want(p.fixture, "number of the moved", ds[0].EnqueuedSequenceNumber, t.EnqueuedSequenceNumber)
		want(p.fixture, "dead-letter source", ds[0].DeadLetterSource, "q")
		want(p.fixture, "hops", transitOf(ds[0].Message).Hops, 2)
		want(p.fixture, "number of one that begins in the topic", ds[1].EnqueuedSequenceNumber, number(3))
	})},
	{"many moves are known and forgotten", func(s *fixture) {
		const n = 2000
		var group []*core.Message
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf("%s/%d", strings.Repeat("k", 50), i))
			group = append(group, text("x", from(keys[i])))
		}
		s.send(group...)
		for _, n := range s.send(group...) {
			want(s, "number of a repeated", n, 0)
		}
		s.forget(s.main, keys[:n/2]...)
		for i, got := range s.send(group...) {
			want(s, fmt.Sprintf("message %d is stored again", i), got != 0, i < n/2)
		}
		s.wantStats("all", s.main, core.Stats{Ready: n + n/2})
	}},
}

func (s *fixture) relockFirst() core.Delivery {
	s.Helper()
	s.clock.Advance(lockDuration)
	return s.lockOne()
}

var transferStories = []story{
	{"a transfer queue is a queue of its own", func(s *fixture) {
		transfer := sub(s.main, core.Transfer)
		want(s, "number", s.sendTo(transfer, text("a", brings(core.Transit{Destination: "there"})))[0], number(1))
		s.sendTexts("b")
		s.wantBodies("main", s.lock(9), "b")
		d := s.lockOneAt(transfer)
		s.wantBodies("transfer", []core.Delivery{d}, "a")
		want(s, "destination", transitOf(d.Message).Destination, "there")
		want(s, "number", d.SequenceNumber, number(1))
		s.wantStats("transfer", transfer, core.Stats{Locked: 1})
		s.settleAt(transfer, d, core.Release)
		s.settleAt(transfer, s.lockOneAt(transfer), core.Complete)
		s.wantStats("emptied", transfer, core.Stats{})
	}},
	{"what dies in the transfer queue goes to its own dead letters", func(s *fixture) {
		transfer := sub(s.main, core.Transfer)
		dead := sub(s.main, core.TransferDeadLetter)
		s.sendTo(transfer, text("a"), text("b"))
		d := s.lockOneAt(transfer)
		s.settleAt(transfer, d, core.DeadLetterOutcome, properties(s, core.PropertyDeadLetterReason, "r", core.PropertyDeadLetterDescription, "d"))
		for range maxDeliveries {
			s.lockOneAt(transfer)
			s.clock.Advance(lockDuration)
		}
		ds := s.lockAt(dead, 9)
		s.wantBodies("dead letters of the transfer queue", ds, "a", "b")
		s.wantReason("first", ds[0], "r", "d")
		s.wantReason("second", ds[1], core.ReasonMaxDeliveryCount, "Message could not be consumed after 3 delivery attempts.")
		s.wantStats("dead letters of the main queue", s.dead(), core.Stats{})
		s.wantStats("main", s.main, core.Stats{})
		s.wantCode("dead-letter again", s.trySettle(dead, ds[0].LockToken, core.DeadLetterOutcome, core.Properties{}), core.NotAllowed)
		s.settleAt(dead, ds[0], core.Abandon)
		want(s, "delivery count", s.lockOneAt(dead).DeliveryCount, 0)
	}},
	{"messages in a transfer queue do not expire", func(s *fixture) {
		s.main.DeadLetterExpired = true
		transfer := sub(s.main, core.Transfer)
		s.sendTo(transfer, text("a", ttl(time.Second)), text("b", ttl(time.Second)))
		s.settleAt(transfer, s.lockOneAt(transfer), core.Defer)
		s.clock.Advance(time.Hour)
		d := s.lockOneAt(transfer)
		s.wantBodies("later", []core.Delivery{d}, "b")
		s.wantTime("expires", d.ExpiresAt, d.EnqueuedTime.Add(time.Second))
		s.settleAt(transfer, d, core.Abandon)
		s.wantBodies("abandoned", s.lockAt(transfer, 9), "b")
		ds, _, err := transfer.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(1)}, Deferred: true})
		s.wantCode("lock deferred", err, "")
		s.wantBodies("deferred", ds, "a")
	}},
	{"the bells of sub-queues are their own", func(s *fixture) {
		transfer, dead := sub(s.main, core.Transfer), sub(s.main, core.TransferDeadLetter)
		s.bell(transfer)("append", func() { s.sendTo(transfer, text("a")) })
		d := s.lockOneAt(transfer)
		s.bell(dead)("dead-letter", func() { s.settleAt(transfer, d, core.DeadLetterOutcome) })
	}},
	{"a session entity's transfer queue has no sessions", withSessions(func(s *fixture) {
		transfer := sub(s.main, core.Transfer)
		s.sendTo(transfer, text("a", in("x")))
		s.acceptNext("")
		s.wantBodies("transfer", s.lockAt(transfer, 9), "a")
	})},
	{"a message that nobody is to give up is delivered for ever", func(s *fixture) {
		s.main.MaxDeliveryCount = 0
		s.sendTexts("a")
		for n := range uint32(20) {
			d := s.lockOne()
			want(s, "delivery count", d.DeliveryCount, n)
			if n%2 == 0 {
				s.settle(d, core.Abandon)
			} else {
				s.clock.Advance(lockDuration)
			}
		}
	}},
	{"the sub-queues of a deleted entity are gone", func(s *fixture) {
		transfer := sub(s.main, core.Transfer)
		s.sendTo(transfer, text("a"), text("b"))
		d := s.lockOneAt(transfer)
		s.settleAt(transfer, s.lockOneAt(transfer), core.DeadLetterOutcome)
		s.deleteEntity("orders")
		s.wantUnknown(transfer, d.LockToken)
		s.wantUnknown(sub(s.main, core.TransferDeadLetter), d.LockToken)
	}},
}
