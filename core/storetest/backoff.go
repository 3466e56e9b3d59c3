package storetest

import (
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (s *fixture) putOff(p core.Partition, d core.Delivery, b core.Backoff, over ...core.Properties) {
	s.Helper()
	st := core.Settlement{Token: d.LockToken, Outcome: core.Abandon, Backoff: b}
	for _, ps := range over {
		st.Properties = st.Properties.Merge(ps)
	}
	s.wantCode("abandon with a backoff", p.In(s.store).Settle(s.Context(), []core.Settlement{st})[0], "")
}

func wait(d time.Duration) core.Backoff { return core.Backoff{First: d} }

// wantWait checks that a delayed message of p becomes available after d, and not earlier.
func (s *fixture) wantWait(p core.Partition, d time.Duration) core.Delivery {
	s.Helper()
	s.clock.Advance(d - time.Millisecond)
	s.wantBodies("one millisecond early", s.lockAt(p, 9))
	s.clock.Advance(time.Millisecond)
	return s.lockOneAt(p)
}

var backoffStories = []story{
	{"a message that is put off comes back at its time, at its old subject", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		d := s.lockOne()
		s.putOff(s.main, d, wait(5*time.Second), properties(s, "x", "1"))
		s.wantStats("meanwhile", s.main, core.Stats{Ready: 2, Locked: 1})
		ds := s.peek(s.main)
		want(s, "state", ds[0].State, core.Active)
		want(s, "delivery count while it waits", ds[0].DeliveryCount, 0)
		s.wantBodies("the others, in order", s.lock(1), "b")
		s.clock.Advance(5 * time.Second)
		ds = s.lock(9)
		s.wantBodies("then", ds, "a", "c")
		want(s, "number", ds[0].SequenceNumber, d.SequenceNumber)
		want(s, "delivery count", ds[0].DeliveryCount, 1)
		s.wantTime("enqueued", ds[0].EnqueuedTime, d.EnqueuedTime)
		x, _ := ds[0].Properties.Get("x")
		want(s, "property", x, any("1"))
	}},
	{"a message that is put off is not a millisecond early", func(s *fixture) {
		s.sendTexts("a")
		s.putOff(s.main, s.lockOne(), wait(2*lockDuration))
		s.settle(s.wantWait(s.main, 2*lockDuration), core.Complete)
		s.wantStats("left", s.main, core.Stats{})
	}},
	{"nobody holds the lock of a message that is put off", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		s.putOff(s.main, d, wait(time.Second))
		for what, token := range map[string]core.LockToken{
			"its former": d.LockToken, "one without a nonce": core.NewLockToken(fixtureIndex, 1, 0),
		} {
			_, err := s.tryRenew(s.main, token)
			s.wantCode("renew with "+what, err, core.LockLost)
			for o := core.Complete; o <= core.Release; o++ {
				s.wantCode(o.String()+" with "+what, s.trySettle(s.main, token, o, core.Properties{}), core.LockLost)
			}
		}
		want(s, "delivery count", s.wantWait(s.main, time.Second).DeliveryCount, 1)
	}},
	{"who waits for messages hears of one that is put off", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		listen := s.bell(s.main)
		s.wantBodies("nothing more", s.lock(1))
		listen("put off", func() { s.putOff(s.main, d, wait(time.Second)) })
		_, next, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
		s.wantCode("lock", err, "")
		s.wantTime("next", next, s.clock.Now().Add(time.Second))
	}},
	{"waits grow with each failed delivery, up to a limit", func(s *fixture) {
		s.main.MaxDeliveryCount = 0
		s.sendTexts("a")
		b := core.Backoff{First: time.Second, Factor: 2, Max: 5 * time.Second}
		for n, wanted := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			d := s.lockOne()
			want(s, "delivery count", d.DeliveryCount, uint32(n))
			s.putOff(s.main, d, b)
			s.wantTime("next", s.sweep(s.main), s.clock.Now().Add(wanted))
			s.settle(s.wantWait(s.main, wanted), core.Release)
		}
	}},
	{"waits grow in fractions of milliseconds, and never beyond the longest", func(s *fixture) {
		s.main.MaxDeliveryCount = 0
		s.sendTexts("a")
		for range 20 {
			s.settle(s.lockOne(), core.Abandon)
		}
		s.putOff(s.main, s.lockOne(), core.Backoff{First: 3 * time.Millisecond, Factor: 1.5, Max: time.Hour})
		s.settle(s.wantWait(s.main, 9975*time.Millisecond), core.Release)
		s.putOff(s.main, s.lockOne(), core.Backoff{First: time.Second, Factor: 1e300})
		s.wantWait(s.main, core.MaxBackoff)
	}},
	{"the last failed delivery dead-letters at once, put off or not", func(s *fixture) {
		s.main.MaxDeliveryCount = 2
		s.sendTexts("a")
		s.putOff(s.main, s.lockOne(), wait(time.Second))
		s.putOff(s.main, s.wantWait(s.main, time.Second), wait(time.Second), properties(s, "x", "1"))
		s.wantStats("main", s.main, core.Stats{})
		d := s.lockOneAt(s.dead())
		s.wantReason("dead letter", d, core.ReasonMaxDeliveryCount, "Message could not be consumed after 2 delivery attempts.")
		x, _ := d.Properties.Get("x")
		want(s, "property", x, any("1"))
	}},
	{"a message that is put off dead-letters at the end if fewer deliveries are allowed by then", func(s *fixture) {
		s.sendTexts("a")
		s.putOff(s.main, s.lockOne(), wait(time.Second))
		s.main.MaxDeliveryCount = 1
		s.clock.Advance(time.Second)
		s.wantBodies("main", s.lock(9))
		s.wantBodies("dead letters", s.peek(s.dead()), "a")
	}},
	{"a message that is put off beyond its time to live expires at the end", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("a", ttl(2*time.Second)))
		s.putOff(s.main, s.lockOne(), wait(3*time.Second))
		s.clock.Advance(2 * time.Second)
		s.wantStats("expired, and waiting", s.main, core.Stats{Locked: 1})
		s.clock.Advance(time.Second)
		s.wantStats("at the end", s.main, core.Stats{})
		s.wantReason("dead letter", s.lockOneAt(s.dead()), core.ReasonExpired, core.DescriptionExpired)
	}},
	{"a deferred message that is put off can be had later", func(s *fixture) {
		n := s.deferOne(text("a"))
		s.putOff(s.main, s.lockDeferred(n)[0], wait(time.Second))
		s.wantStats("meanwhile", s.main, core.Stats{Deferred: 1})
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{n}, Deferred: true})
		s.wantCode("meanwhile", err, core.MessageNotFound)
		s.clock.Advance(time.Second)
		s.wantBodies("normal flow", s.lock(9))
		want(s, "delivery count", s.lockDeferred(n)[0].DeliveryCount, 2)
	}},
	{"dead letters are put off without a count", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendTexts("a")
		s.settle(s.lockOne(), core.Abandon)
		for range 3 {
			s.putOff(s.dead(), s.lockOneAt(s.dead()), core.Backoff{First: time.Second, Factor: 10})
			d := s.wantWait(s.dead(), time.Second)
			want(s, "delivery count", d.DeliveryCount, 1)
			s.settleAt(s.dead(), d, core.Release)
		}
	}},
	{"a message that is released with a delay comes back uncounted", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendTexts("a")
		for range 2 {
			st := core.Settlement{Token: s.lockOne().LockToken, Outcome: core.Release, Backoff: wait(time.Second)}
			s.wantCode("release with a delay", s.main.In(s.store).Settle(s.Context(), []core.Settlement{st})[0], "")
			d := s.wantWait(s.main, time.Second)
			want(s, "delivery count", d.DeliveryCount, 0)
			s.settle(d, core.Release)
		}
	}},
	{"commit puts messages off", func(s *fixture) {
		s.sendTexts("a", "b")
		ds := s.lock(2)
		s.commit(s.main, core.Work{
			Settlements: []core.Settlement{{Token: ds[0].LockToken, Outcome: core.Abandon, Backoff: wait(time.Second)}, settlement(ds[1], core.Complete)},
			Messages:    []*core.Message{text("c")},
		})
		s.wantBodies("meanwhile", s.lock(9), "c")
		s.wantWait(s.main, time.Second)
	}},
	{"messages that are put off come back in the order of their times", func(s *fixture) {
		s.main.MaxDeliveryCount = 0
		var bodies []string
		for i := range 30 {
			bodies = append(bodies, string(rune('A'+i)))
		}
		s.sendTexts(bodies...)
		for i, d := range s.lock(len(bodies)) {
			s.putOff(s.main, d, wait(time.Duration(len(bodies)-i)*time.Second))
		}
		slices.Reverse(bodies)
		for _, body := range bodies {
			s.clock.Advance(time.Second)
			s.wantBodies("after another second", s.lock(9), body)
		}
	}},
}
