package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var deadLetterStories = []story{
	{"a dead-lettered message moves with what is known of it", func(s *fixture) {
		s.sendTexts("x")
		m := text("a", ttl(time.Hour))
		m.Properties = properties(s, "k", "v")
		s.send(m)
		enqueued := s.clock.Now()
		ds := s.lock(2)
		s.settle(ds[1], core.Abandon)
		d := s.lockOne()
		s.clock.Advance(time.Second)
		s.settle(d, core.DeadLetterOutcome,
			properties(s, core.PropertyDeadLetterReason, "bad", core.PropertyDeadLetterDescription, "very"))
		s.wantStats("main", s.main, core.Stats{Locked: 1})
		s.wantStats("dead letters", s.dead(), core.Stats{Ready: 1})
		wanted := *m
		wanted.Properties = properties(s, "k", "v", core.PropertyDeadLetterReason, "bad", core.PropertyDeadLetterDescription, "very")
		s.wantDelivery("dead letter", s.lockOneAt(s.dead()), core.Delivery{
			Message: &wanted,
			BrokerProperties: core.BrokerProperties{
				SequenceNumber:         number(1),
				EnqueuedSequenceNumber: number(2),
				EnqueuedTime:           enqueued,
				ExpiresAt:              enqueued.Add(time.Hour),
				DeliveryCount:          1,
				Partitioned:            true,
				DeadLetteredTime:       s.clock.Now(),
			},
		})
	}},
	{"the last failed delivery dead-letters, by abandon", func(s *fixture) {
		s.sendTexts("a")
		for n := range uint32(maxDeliveries) {
			d := s.lockOne()
			want(s, "delivery count", d.DeliveryCount, n)
			s.settle(d, core.Abandon, properties(s, "x", "1"))
		}
		s.wantStats("main", s.main, core.Stats{})
		d := s.lockOneAt(s.dead())
		want(s, "delivery count of the dead letter", d.DeliveryCount, maxDeliveries)
		want(s, "time", d.DeadLetteredTime, s.clock.Now())
		s.wantReason("dead letter", d, core.ReasonMaxDeliveryCount, "Message could not be consumed after 3 delivery attempts.")
		x, _ := d.Properties.Get("x")
		want(s, "property of the last abandon", x, any("1"))
	}},
	{"the last failed delivery dead-letters, by the lock's end", func(s *fixture) {
		s.sendTexts("a")
		for range maxDeliveries {
			s.lockOne()
			s.clock.Advance(lockDuration)
		}
		s.wantBodies("main", s.lock(9))
		d := s.lockOneAt(s.dead())
		want(s, "delivery count", d.DeliveryCount, maxDeliveries)
		s.wantReason("dead letter", d, core.ReasonMaxDeliveryCount, "Message could not be consumed after 3 delivery attempts.")
	}},
	{"asking the dead letters sees what has just died in the main queue", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendTexts("a")
		s.lockOne()
		s.clock.Advance(lockDuration)
		s.wantBodies("dead letters", s.lockAt(s.dead(), 9), "a")
	}},
	{"dead letters are numbered on their own", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		ds := s.lock(3)
		s.settle(ds[2], core.DeadLetterOutcome)
		s.settle(ds[0], core.DeadLetterOutcome)
		got := s.peek(s.dead())
		s.wantBodies("dead letters", got, "c", "a")
		want(s, "first number", got[0].SequenceNumber, number(1))
		want(s, "first number in the main queue", got[0].EnqueuedSequenceNumber, number(3))
		want(s, "second number", got[1].SequenceNumber, number(2))
		want(s, "second number in the main queue", got[1].EnqueuedSequenceNumber, number(1))
	}},
	{"dead letters neither expire nor count nor die again", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.main.DeadLetterExpired = true
		s.send(text("a", ttl(time.Minute)))
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		s.clock.Advance(time.Hour)
		for range 3 {
			d := s.lockOneAt(s.dead())
			want(s, "delivery count", d.DeliveryCount, 0)
			s.settleAt(s.dead(), d, core.Abandon)
			s.lockOneAt(s.dead())
			s.clock.Advance(lockDuration)
		}
		s.wantStats("dead letters", s.dead(), core.Stats{Ready: 1})
	}},
	{"a dead letter cannot be dead-lettered, and stays locked", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		d := s.lockOneAt(s.dead())
		s.wantCode("dead-letter", s.trySettle(s.dead(), d.LockToken, core.DeadLetterOutcome, core.Properties{}), core.NotAllowed)
		s.wantStats("after", s.dead(), core.Stats{Locked: 1})
		s.settleAt(s.dead(), d, core.Complete)
		s.wantStats("completed", s.dead(), core.Stats{})
	}},
	{"dead letters can be abandoned with properties, renewed, released and deferred", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		s.settleAt(s.dead(), s.lockOneAt(s.dead()), core.Abandon, properties(s, "x", "1"))
		s.settleAt(s.dead(), s.lockOneAt(s.dead()), core.Release)
		d := s.lockOneAt(s.dead())
		x, _ := d.Properties.Get("x")
		want(s, "property", x, any("1"))
		s.clock.Advance(time.Second)
		until, err := s.tryRenew(s.dead(), d.LockToken)
		s.wantCode("renew", err, "")
		s.wantTime("until", until, s.clock.Now().Add(lockDuration))
		s.settleAt(s.dead(), d, core.Defer)
		s.wantStats("deferred", s.dead(), core.Stats{Deferred: 1})
		ds, _, err := s.dead().In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{d.SequenceNumber}, Deferred: true})
		s.wantCode("lock deferred", err, "")
		s.wantBodies("deferred", ds, "a")
		want(s, "delivery count", ds[0].DeliveryCount, 0)
	}},
	{"a main token does not settle a dead letter", func(s *fixture) {
		s.sendTexts("a", "b")
		ds := s.lock(2)
		s.settle(ds[1], core.DeadLetterOutcome)
		s.lockOneAt(s.dead())
		s.wantCode("complete", s.trySettle(s.dead(), ds[0].LockToken, core.Complete, core.Properties{}), core.LockLost)
		s.settle(ds[0], core.Complete)
	}},
}

var expiryStories = []story{
	{"an expired message is dropped", func(s *fixture) {
		s.send(text("a", ttl(time.Second)), text("b"))
		s.clock.Advance(time.Second - time.Millisecond)
		s.wantBodies("one millisecond early", s.peek(s.main), "a", "b")
		s.clock.Advance(time.Millisecond)
		s.wantStats("expired", s.main, core.Stats{Ready: 1})
		s.wantBodies("left", s.lock(9), "b")
		s.wantBodies("dead letters", s.peek(s.dead()))
	}},
	{"an expired message is dead-lettered where the entity says so", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("a", ttl(time.Second)))
		enqueued := s.clock.Now()
		s.clock.Advance(time.Minute)
		s.wantBodies("main", s.lock(9))
		d := s.lockOneAt(s.dead())
		s.wantReason("dead letter", d, core.ReasonExpired, core.DescriptionExpired)
		s.wantTime("enqueued", d.EnqueuedTime, enqueued)
		s.wantTime("expires", d.ExpiresAt, enqueued.Add(time.Second))
		want(s, "delivery count", d.DeliveryCount, 0)
	}},
	{"messages expire by expiry, then by number", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("c", ttl(3*time.Second)), text("a", ttl(time.Second)), text("d", ttl(3*time.Second)), text("b", ttl(2*time.Second)))
		s.clock.Advance(time.Minute)
		s.wantBodies("dead letters", s.peek(s.dead()), "a", "b", "c", "d")
	}},
	{"a redeliverable message expires like a new one", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("a", ttl(time.Minute)))
		s.settle(s.lockOne(), core.Abandon)
		s.clock.Advance(time.Minute)
		d := s.lockOneAt(s.dead())
		s.wantReason("dead letter", d, core.ReasonExpired, core.DescriptionExpired)
		want(s, "delivery count", d.DeliveryCount, 1)
	}},
	{"expiry does not touch a locked message: it can be completed", func(s *fixture) {
		s.send(text("a", ttl(time.Second)))
		d := s.lockOne()
		s.clock.Advance(2 * time.Second)
		s.wantStats("expired under lock", s.main, core.Stats{Locked: 1})
		s.settle(d, core.Complete)
	}},
	{"an expired message under lock can be dead-lettered by its receiver", func(s *fixture) {
		s.send(text("a", ttl(time.Second)))
		d := s.lockOne()
		s.clock.Advance(2 * time.Second)
		s.settle(d, core.DeadLetterOutcome, properties(s, core.PropertyDeadLetterReason, "own", core.PropertyDeadLetterDescription, "words"))
		s.wantReason("dead letter", s.lockOneAt(s.dead()), "own", "words")
	}},
	{"expiry takes effect when the lock ends, however it ends", func(s *fixture) {
		s.main.DeadLetterExpired = true
		for o, count := range map[core.Outcome]uint32{core.Abandon: 1, core.Release: 0} {
			s.send(text(o.String(), ttl(time.Second)))
			d := s.lockOne()
			s.clock.Advance(time.Second)
			s.settle(d, o, properties(s, "x", "1"))
			s.wantStats("main", s.main, core.Stats{})
			dead := s.lockOneAt(s.dead())
			s.wantBodies("dead letter", []core.Delivery{dead}, o.String())
			s.wantReason("dead letter", dead, core.ReasonExpired, core.DescriptionExpired)
			want(s, "delivery count", dead.DeliveryCount, count)
			s.settleAt(s.dead(), dead, core.Complete)
		}
		s.send(text("lapse", ttl(time.Second)))
		s.lockOne()
		s.clock.Advance(lockDuration)
		dead := s.lockOneAt(s.dead())
		s.wantReason("dead letter", dead, core.ReasonExpired, core.DescriptionExpired)
		want(s, "delivery count", dead.DeliveryCount, 1)
	}},
	{"an expired message is dropped when its lock ends", func(s *fixture) {
		s.send(text("a", ttl(time.Second)))
		d := s.lockOne()
		s.clock.Advance(time.Second)
		s.settle(d, core.Abandon)
		s.wantStats("main", s.main, core.Stats{})
		s.wantStats("dead letters", s.dead(), core.Stats{})
	}},
	{"too many deliveries count before expiry", func(s *fixture) {
		s.main.DeadLetterExpired, s.main.MaxDeliveryCount = true, 1
		s.send(text("a", ttl(time.Second)))
		s.lockOne()
		s.clock.Advance(lockDuration)
		s.wantReason("dead letter", s.lockOneAt(s.dead()), core.ReasonMaxDeliveryCount, "Message could not be consumed after 1 delivery attempts.")
	}},
	{"expired locks are ended before messages expire", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("locked", ttl(time.Minute)))
		s.lockOne()
		s.send(text("waiting", ttl(time.Second)))
		s.clock.Advance(time.Hour)
		s.wantBodies("dead letters", s.peek(s.dead()), "locked", "waiting")
	}},
	{"a deferred message expires when somebody asks for it: dropped", func(s *fixture) {
		n := s.deferOne(text("a", ttl(time.Second)))
		s.clock.Advance(time.Second)
		s.wantStats("not asked for", s.main, core.Stats{Deferred: 1})
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{n}, Deferred: true})
		s.wantCode("lock deferred", err, core.MessageNotFound)
		s.wantStats("asked for", s.main, core.Stats{})
		s.wantStats("dead letters", s.dead(), core.Stats{})
	}},
	{"a deferred message expires when somebody asks for it: dead-lettered", func(s *fixture) {
		s.main.DeadLetterExpired = true
		a, b := s.deferOne(text("a", ttl(time.Second))), s.deferOne(text("b"))
		s.clock.Advance(time.Hour)
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{b, a}, Deferred: true})
		s.wantCode("lock deferred", err, core.MessageNotFound)
		s.wantReason("dead letter", s.lockOneAt(s.dead()), core.ReasonExpired, core.DescriptionExpired)
		s.wantBodies("the other one", s.lockDeferred(b), "b")
	}},
	{"expired deferred messages expire even if the rest of the request is wrong", func(s *fixture) {
		s.main.DeadLetterExpired = true
		a, b := s.deferOne(text("a", ttl(time.Second))), s.deferOne(text("b", ttl(time.Second)))
		s.clock.Advance(time.Hour)
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(99), b, a}, Deferred: true})
		s.wantCode("lock deferred", err, core.MessageNotFound)
		s.wantBodies("dead letters", s.peek(s.dead()), "b", "a")
	}},
	{"a deferred message that expires under lock stays deferred", func(s *fixture) {
		n := s.deferOne(text("a", ttl(time.Minute)))
		d := s.lockDeferred(n)[0]
		s.clock.Advance(20 * time.Second)
		if _, err := s.tryRenew(s.main, d.LockToken); err != nil {
			s.Fatalf("renew: %v", err)
		}
		s.clock.Advance(20 * time.Second)
		if _, err := s.tryRenew(s.main, d.LockToken); err != nil {
			s.Fatalf("renew: %v", err)
		}
		s.clock.Advance(25 * time.Second)
		s.settle(d, core.Release)
		s.wantStats("released", s.main, core.Stats{Deferred: 1})
	}},
	{"the time to live of a scheduled message begins when it is due", func(s *fixture) {
		s.send(text("a", s.after(time.Hour), ttl(time.Second)))
		s.clock.Advance(time.Hour + 10*time.Second)
		s.wantBodies("just activated", s.peek(s.main), "a")
		s.clock.Advance(time.Second - time.Millisecond)
		s.wantBodies("one millisecond early", s.peek(s.main), "a")
		s.clock.Advance(time.Millisecond)
		s.wantBodies("expired", s.peek(s.main))
	}},
	{"many messages that expire are all dead-lettered at once", func(s *fixture) {
		const n = 2500
		s.main.DeadLetterExpired = true
		group := make([]*core.Message, n)
		for i := range group {
			group[i] = text("x", ttl(time.Second))
		}
		s.send(group...)
		s.clock.Advance(time.Second)
		s.wantStats("dead letters", s.dead(), core.Stats{Ready: n})
		s.wantStats("main", s.main, core.Stats{})
	}},
}
