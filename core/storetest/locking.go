package storetest

import (
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var lockStories = []story{
	{"messages are delivered oldest first, each to one receiver", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		s.wantBodies("first receiver", s.lock(2), "a", "b")
		s.wantBodies("second receiver", s.lock(2), "c")
		s.wantBodies("third receiver", s.lock(2))
	}},
	{"a lock has a token of its subject and ends after its duration", func(s *fixture) {
		s.sendTexts("a", "b")
		ds := s.lock(2)
		for i, d := range ds {
			want(s, "partition", d.LockToken.Partition(), fixtureIndex)
			want(s, "number", d.LockToken.Number(), int64(i+1))
			s.wantTime("locked until", d.LockedUntil, s.clock.Now().Add(lockDuration))
			want(s, "delivery count", d.DeliveryCount, 0)
			want(s, "state", d.State, core.Active)
		}
	}},
	{"each lock has its own token", func(s *fixture) {
		s.sendTexts("a")
		first := s.lockOne()
		s.settle(first, core.Abandon)
		if second := s.lockOne(); second.LockToken == first.LockToken {
			s.Fatalf("token of the second delivery: got %v again", second.LockToken)
		}
		s.wantCode("settle with the first token", s.trySettle(s.main, first.LockToken, core.Complete, core.Properties{}), core.LockLost)
	}},
	{"a call locks no more bytes than it asks for, but one message", func(s *fixture) {
		lockBytes(s, func(most core.Most) ([]core.Delivery, time.Time, error) {
			return s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: most})
		})
	}},
	{"a call locks no more bytes of a session than it asks for, but one message", withSessions(func(s *fixture) {
		l := s.accept("x")
		lockBytes(s, func(most core.Most) ([]core.Delivery, time.Time, error) {
			return s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: most, Session: &l})
		}, in("x"))
	})},
	{"asking for nothing locks nothing", func(s *fixture) {
		s.sendTexts("a")
		s.wantBodies("lock 0", s.lock(0))
		s.wantStats("after", s.main, core.Stats{Ready: 1})
	}},
	{"redelivered messages come before new ones, by number", func(s *fixture) {
		s.sendTexts("a", "b", "c", "d", "e")
		ds := s.lock(3)
		s.settle(ds[2], core.Abandon)
		s.settle(ds[0], core.Release)
		s.wantBodies("next", s.lock(3), "a", "c", "d")
	}},
	{"gaps in the numbers are skipped", func(s *fixture) {
		s.sendTexts("a")
		s.send(text("later", s.after(time.Hour)))
		ns := s.send(text("never", s.after(time.Hour)))
		s.wantCode("cancel", s.main.In(s.store).Cancel(s.Context(), ns), "")
		s.send(text("short", ttl(time.Second)))
		s.sendTexts("b", "c")
		s.clock.Advance(time.Second)
		s.wantBodies("messages", s.lock(3), "a", "b", "c")
	}},
	{"a lock ends when its time has come, not before", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		s.clock.Advance(lockDuration - time.Millisecond)
		s.wantBodies("one millisecond early", s.lock(9))
		s.clock.Advance(time.Millisecond)
		again := s.lockOne()
		want(s, "number", again.SequenceNumber, d.SequenceNumber)
		want(s, "delivery count", again.DeliveryCount, 1)
	}},
	{"expired locks end in the order of their ends", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendTexts("a", "b", "c")
		ds := s.lock(3)
		s.clock.Advance(time.Second)
		if _, err := s.tryRenew(s.main, ds[0].LockToken); err != nil {
			s.Fatalf("renew: %v", err)
		}
		s.clock.Advance(time.Hour)
		s.wantBodies("dead letters", s.peek(s.dead()), "b", "c", "a")
	}},
	{"renewing extends a lock from now on", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		s.clock.Advance(20 * time.Second)
		until, err := s.tryRenew(s.main, d.LockToken)
		s.wantCode("renew", err, "")
		s.wantTime("until", until, s.clock.Now().Add(lockDuration))
		s.clock.Advance(lockDuration - time.Millisecond)
		s.wantBodies("before the new end", s.lock(9))
		s.settle(d, core.Complete)
	}},
	{"a lost lock can be neither renewed nor settled", func(s *fixture) {
		s.sendTexts("a", "b")
		ds := s.lock(2)
		s.settle(ds[1], core.Complete)
		s.clock.Advance(lockDuration)
		forged := core.NewLockToken(fixtureIndex, 1, ds[0].LockToken.Nonce()+1)
		elsewhere := core.NewLockToken(0, 1, ds[0].LockToken.Nonce())
		for what, token := range map[string]core.LockToken{
			"expired": ds[0].LockToken, "settled": ds[1].LockToken, "forged": forged, "of another partition": elsewhere,
			"never given": core.NewLockToken(fixtureIndex, 99, 1), "zero": {},
		} {
			_, err := s.tryRenew(s.main, token)
			s.wantCode("renew: token "+what, err, core.LockLost)
			for o := core.Complete; o <= core.Release; o++ {
				s.wantCode(o.String()+": token "+what, s.trySettle(s.main, token, o, core.Properties{}), core.LockLost)
			}
		}
		s.wantStats("after it all", s.main, core.Stats{Ready: 1})
	}},
	{"a forged token does not touch a held lock", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		forged := core.NewLockToken(fixtureIndex, 1, d.LockToken.Nonce()+1)
		s.wantCode("complete", s.trySettle(s.main, forged, core.Complete, core.Properties{}), core.LockLost)
		s.settle(d, core.Complete)
	}},
	{"renewing answers each token on its own", func(s *fixture) {
		s.sendTexts("a", "b")
		ds := s.lock(2)
		rs := s.main.In(s.store).Renew(s.Context(), []core.LockToken{ds[0].LockToken, {}, ds[1].LockToken})
		want(s, "answers", len(rs), 3)
		s.wantCode("first", rs[0].Err, "")
		s.wantCode("second", rs[1].Err, core.LockLost)
		s.wantCode("third", rs[2].Err, "")
	}},
	{"next is when something is due", func(s *fixture) {
		start := s.clock.Now()
		next := func() time.Time {
			s.Helper()
			ds, next, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
			s.wantCode("lock", err, "")
			s.wantBodies("lock", ds)
			s.wantTime("next of sweep and lock", s.sweep(s.main), next)
			return next
		}
		s.wantTime("next of an empty partition", next(), time.Time{})
		s.send(text("later", s.after(time.Minute)))
		s.wantTime("next with a schedule", next(), start.Add(time.Minute))
		s.sendTexts("a")
		s.lockOne()
		s.wantTime("next with a lock", next(), start.Add(lockDuration))
	}},
	{"next covers messages that can expire", func(s *fixture) {
		s.send(text("a", ttl(time.Second)))
		s.wantTime("next", s.sweep(s.main), s.clock.Now().Add(time.Second))
		s.clock.Advance(time.Second)
		s.wantTime("next after expiry", s.sweep(s.main), time.Time{})
	}},
	{"next is never in the past", func(s *fixture) {
		s.deferOne(text("deferred", ttl(time.Second)))
		s.send(text("locked", ttl(time.Second)))
		s.lockOne()
		s.clock.Advance(2 * time.Second)
		s.wantTime("next", s.sweep(s.main), s.clock.Now().Add(lockDuration-2*time.Second))
	}},
	{"many locks that expire are all ended at once", func(s *fixture) {
		const n = 2500
		group := make([]*core.Message, n)
		for i := range group {
			group[i] = text("x")
		}
		s.send(group...)
		for locked := 0; locked < n; {
			ds := s.lock(500)
			locked += len(ds)
			if len(ds) == 0 {
				s.Fatalf("locked %d of %d", locked, n)
			}
		}
		s.clock.Advance(lockDuration)
		s.wantStats("after the end", s.main, core.Stats{Ready: n})
		s.wantTime("next", s.sweep(s.main), time.Time{})
	}},
}

func lockBytes(s *fixture, lock func(core.Most) ([]core.Delivery, time.Time, error), with ...func(*core.Message)) {
	const messages, most = 60, 50
	sent, locked := int64(0), int64(0)
	for _, bytes := range []int64{1, 10 << 10, 300 << 10, 0} {
		for i := range messages {
			size := 1 << (i * 7 % 18)
			if bytes == 0 {
				size = 1
			}
			s.send(text(strings.Repeat("x", size), with...))
			sent++
		}
		for left := true; left; {
			m := core.Most{Messages: most, Bytes: bytes}
			ds, next, err := lock(m)
			s.wantCode("lock", err, "")
			if size := int64(core.SizeOf(ds)); len(ds) > most || bytes > 0 && size > bytes && len(ds) > 1 {
				s.Errorf("locked %d messages with %d bytes, want at most %d messages with %d bytes", len(ds), size, most, bytes)
			}
			left = m.Left(ds, next, s.clock.Now)
			for i := range ds {
				locked++
				want(s, "number", ds[i].LockToken.Number(), locked)
				want(s, "delivery count", ds[i].DeliveryCount, 0)
			}
			if left && len(ds) == 0 {
				s.Fatal("nothing is locked, and something left")
			}
			s.wantStats("after", s.main, core.Stats{Ready: sent - locked, Locked: locked})
		}
		want(s, "locked", locked, sent)
	}
}

var settleStories = []story{
	{"complete removes the message", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.Complete)
		s.wantBodies("left", s.peek(s.main))
		s.wantStats("left", s.main, core.Stats{})
	}},
	{"abandon makes the message available at its old subject and counts", func(s *fixture) {
		s.sendTexts("a", "b")
		d := s.lockOne()
		s.settle(d, core.Abandon)
		again := s.lockOne()
		want(s, "number", again.SequenceNumber, d.SequenceNumber)
		want(s, "delivery count", again.DeliveryCount, 1)
		s.wantTime("enqueued", again.EnqueuedTime, d.EnqueuedTime)
	}},
	{"release makes the message available and does not count", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendTexts("a")
		for range 3 {
			d := s.lockOne()
			want(s, "delivery count", d.DeliveryCount, 0)
			s.settle(d, core.Release)
		}
		s.wantStats("after three releases", s.main, core.Stats{Ready: 1})
	}},
	{"abandon changes user properties, and the changes last", func(s *fixture) {
		m := text("a")
		m.Properties = properties(s, "x", "1", "y", "1")
		s.send(m)
		s.settle(s.lockOne(), core.Abandon, properties(s, "y", "2", "z", "2"))
		s.settle(s.lockOne(), core.Abandon, properties(s, "z", "3"))
		d := s.lockOne()
		var diff differences
		diff.properties("Properties", d.Properties, properties(s, "x", "1", "y", "2", "z", "3"))
		want(s, "differences", diff.String(), "")
		s.wantBodies("payload", []core.Delivery{d}, "a")
		y, _ := m.Properties.Get("y")
		want(s, "the sender's own message", y, any("1"))
	}},
	{"complete and release ignore properties", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.Release, properties(s, "x", "1"))
		want(s, "properties", s.lockOne().Properties.Len(), 0)
	}},
	{"settlements can set a limited number of bytes of properties", func(s *fixture) {
		half := func(key string) core.Properties {
			return properties(s, key, strings.Repeat("x", core.MaxHeaderBytes/2))
		}
		s.sendTexts("a")
		s.settle(s.lockOne(), core.Abandon, half("a"))
		d := s.lockOne()
		for _, o := range []core.Outcome{core.Abandon, core.Defer} {
			s.wantCode("a second half", s.trySettle(s.main, d.LockToken, o, half("b")), core.TooLarge)
		}
		s.refuseCommit(s.main, core.Work{Settlements: []core.Settlement{{Token: d.LockToken, Outcome: core.Abandon, Properties: half("b")}}}, core.TooLarge)
		s.settle(d, core.Abandon, properties(s, "y", "1"))
		d = s.lockOne()
		s.wantCode("a second half again", s.trySettle(s.main, d.LockToken, core.Abandon, half("b")), core.TooLarge)
		s.settle(d, core.DeadLetterOutcome, half("b"))
		var err error
		for key := 'c'; key < 'i' && err == nil; key++ {
			d = s.lockOneAt(s.dead())
			err = s.trySettle(s.dead(), d.LockToken, core.Abandon, half(string(key)))
		}
		s.wantCode("more halves in the dead-letter queue", err, core.TooLarge)
		s.settleAt(s.dead(), d, core.Complete)
	}},
	{"in a full partition settlements set no more properties than before", func(s *fixture) {
		s.main.MaxDeliveryCount = 0
		full := s.main
		full.MaxBytes = 1
		s.sendTexts("a")
		try := func(o core.Outcome, wanted core.Code, over core.Properties) {
			s.Helper()
			d := s.lockOne()
			s.wantCode(o.String(), s.trySettle(full, d.LockToken, o, over), wanted)
			if wanted == "" {
				return
			}
			x := core.Settlement{Token: d.LockToken, Outcome: o, Properties: over}
			s.refuseCommit(full, core.Work{Settlements: []core.Settlement{x}}, wanted)
			s.settle(d, core.Abandon)
		}
		some := properties(s, "a", "1", "b", "2")
		try(core.Abandon, core.QuotaExceeded, some)
		try(core.Defer, core.QuotaExceeded, some)
		try(core.Abandon, "", core.Properties{})
		s.settle(s.lockOne(), core.Abandon, some)
		try(core.Abandon, "", properties(s, "b", "3"))
		try(core.Abandon, core.QuotaExceeded, properties(s, "b", "33"))
		s.commit(full, core.Work{Settlements: []core.Settlement{{Token: s.lockOne().LockToken, Outcome: core.Abandon, Properties: properties(s, "b", "4")}}})
		try(core.DeadLetterOutcome, core.QuotaExceeded, properties(s, "reason", strings.Repeat("x", core.MaxReasonBytes)))
		reason := strings.Repeat("x", core.MaxReasonBytes/2)
		try(core.DeadLetterOutcome, "", properties(s, "reason", reason))
		var diff differences
		diff.properties("Properties", s.lockOneAt(s.dead()).Properties, properties(s, "a", "1", "b", "4", "reason", reason))
		want(s, "differences", diff.String(), "")
	}},
	{"settlements can set the same properties again and again", func(s *fixture) {
		s.sendTexts("a")
		s.main.MaxDeliveryCount = 0
		all := properties(s, "first", "1")
		s.settle(s.lockOne(), core.Abandon, all)
		for i := range 100 {
			set := properties(s, "retry", strconv.Itoa(i), "text", strings.Repeat("x", 1000))
			if i%2 == 0 {
				set = set.Merge(properties(s, "even", strconv.Itoa(i)))
			}
			s.settle(s.lockOne(), core.Abandon, set)
			all = all.Merge(set)
		}
		var diff differences
		diff.properties("Properties", s.lockOne().Properties, all)
		want(s, "differences", diff.String(), "")
	}},
	{"settlements are answered one by one, in order", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		ds := s.lock(3)
		errs := s.main.In(s.store).Settle(s.Context(), []core.Settlement{
			{Token: ds[2].LockToken, Outcome: core.DeadLetterOutcome},
			{Token: ds[0].LockToken, Outcome: core.Complete},
			{Token: ds[0].LockToken, Outcome: core.Abandon},
			{Token: core.NewLockToken(fixtureIndex, 2, 1), Outcome: core.Complete},
			{Token: ds[1].LockToken, Outcome: core.DeadLetterOutcome},
		})
		want(s, "answers", len(errs), 5)
		for i, code := range []core.Code{"", "", core.LockLost, core.LockLost, ""} {
			s.wantCode("answer", errs[i], code)
		}
		s.wantBodies("dead letters", s.peek(s.dead()), "c", "b")
		s.wantStats("left", s.main, core.Stats{})
	}},
	{"a message locked again is settled by the new token", func(s *fixture) {
		s.sendTexts("a")
		first := s.lockOne()
		s.clock.Advance(lockDuration)
		second := s.lockOne()
		s.wantCode("complete by the first", s.trySettle(s.main, first.LockToken, core.Complete, core.Properties{}), core.LockLost)
		s.settle(second, core.Complete)
		s.wantStats("left", s.main, core.Stats{})
	}},
}

var deferStories = []story{
	{"a deferred message is out of the normal flow", func(s *fixture) {
		n := s.deferOne(text("a"))
		s.wantBodies("normal flow", s.lock(9))
		s.wantStats("deferred", s.main, core.Stats{Deferred: 1})
		want(s, "state", s.peek(s.main)[0].State, core.Deferred)
		d := s.lockDeferred(n)[0]
		want(s, "number", d.SequenceNumber, n)
		want(s, "state under lock", d.State, core.Deferred)
		want(s, "token's number", d.LockToken.SequenceNumber(), n)
		s.wantTime("locked until", d.LockedUntil, s.clock.Now().Add(lockDuration))
		s.wantStats("deferred and locked", s.main, core.Stats{Deferred: 1})
		want(s, "state when peeked under lock", s.peek(s.main)[0].State, core.Deferred)
		s.settle(d, core.Complete)
		s.wantStats("completed", s.main, core.Stats{})
	}},
	{"deferring changes user properties and counts", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		s.settle(d, core.Defer, properties(s, "x", "1"))
		d = s.lockDeferred(d.SequenceNumber)[0]
		x, _ := d.Properties.Get("x")
		want(s, "property", x, any("1"))
		want(s, "delivery count", d.DeliveryCount, 1)
		s.settle(d, core.Defer)
		want(s, "delivery count when peeked", s.peek(s.main)[0].DeliveryCount, 2)
		d = s.lockDeferred(d.SequenceNumber)[0]
		want(s, "delivery count after the second time", d.DeliveryCount, 2)
		s.settle(d, core.DeadLetterOutcome)
		want(s, "delivery count of the dead letter", s.lockOneAt(s.dead()).DeliveryCount, 2)
	}},
	{"deferring as often as a message may be delivered dead-letters it", func(s *fixture) {
		s.main.MaxDeliveryCount = 2
		n := s.deferOne(text("a"))
		s.settle(s.lockDeferred(n)[0], core.Defer, properties(s, "x", "1"))
		s.wantStats("afterwards", s.main, core.Stats{})
		d := s.lockOneAt(s.dead())
		s.wantReason("dead letter", d, core.ReasonMaxDeliveryCount, "Message could not be consumed after 2 delivery attempts.")
		x, _ := d.Properties.Get("x")
		want(s, "property", x, any("1"))
		want(s, "delivery count", d.DeliveryCount, 2)
	}},
	{"deferring the only delivery that a message may have dead-letters it, in a commit too", func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendTexts("a", "b")
		ds := s.lock(2)
		s.settle(ds[0], core.Defer)
		_, err := s.main.In(s.store).Commit(s.Context(), core.Work{Settlements: []core.Settlement{{Token: ds[1].LockToken, Outcome: core.Defer}}})
		s.wantCode("commit", err, "")
		s.wantStats("afterwards", s.main, core.Stats{})
		s.wantBodies("dead letters", s.peek(s.dead()), "a", "b")
	}},
	{"deferring in a commit counts", func(s *fixture) {
		s.sendTexts("a")
		d := s.lockOne()
		_, err := s.main.In(s.store).Commit(s.Context(), core.Work{Settlements: []core.Settlement{{Token: d.LockToken, Outcome: core.Defer}}})
		s.wantCode("commit", err, "")
		want(s, "delivery count", s.lockDeferred(d.SequenceNumber)[0].DeliveryCount, 1)
	}},
	{"deferred messages are delivered in the order asked for", func(s *fixture) {
		a, b, c := s.deferOne(text("a")), s.deferOne(text("b")), s.deferOne(text("c"))
		s.wantBodies("messages", s.lockDeferred(b, c, a), "b", "c", "a")
	}},
	{"messages are locked by number, those that are available", func(s *fixture) {
		s.sendTexts("a", "b", "c", "d", "e", "f")
		ds := s.lock(2)
		s.settle(ds[0], core.Abandon)
		got, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(5), number(4), number(2), number(1), number(9), core.SequenceNumber(0, 3), number(5)}})
		s.wantCode("lock", err, "")
		s.wantBodies("messages", got, "e", "d", "a")
		want(s, "delivery count", got[2].DeliveryCount, 1)
		s.wantBodies("the others", s.lock(9), "c", "f")
		s.settle(got[0], core.Release)
		s.settle(got[1], core.Complete)
		s.settle(got[2], core.Abandon)
		s.wantBodies("those that came back", s.lock(9), "a", "e")
		got, _, err = s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(5)}})
		s.wantCode("lock again", err, "")
		s.wantBodies("nothing is available", got)
		s.wantStats("stats", s.main, core.Stats{Locked: 5})
	}},
	{"a lock by number ends like any other", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		got, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(3)}})
		s.wantCode("lock", err, "")
		s.wantBodies("the last", got, "c")
		s.clock.Advance(s.main.LockDuration)
		ds := s.lock(9)
		s.wantBodies("all, the one delivered before first", ds, "c", "a", "b")
		want(s, "delivery count", ds[0].DeliveryCount, 1)
	}},
	{"what expires under a lock by number can be settled", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("a"), text("b", ttl(time.Second)), text("c", ttl(time.Second)))
		got, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(2), number(3)}})
		s.wantCode("lock", err, "")
		s.clock.Advance(2 * time.Second)
		s.wantStats("stats", s.main, core.Stats{Ready: 1, Locked: 2})
		s.settle(got[0], core.Complete)
		s.settle(got[1], core.Release)
		s.wantBodies("what has not expired", s.lock(9), "a")
		s.wantReason("dead letter", s.lockOneAt(s.dead()), core.ReasonExpired, core.DescriptionExpired)
	}},
	{"dead letters are locked by number", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		for _, d := range s.lock(3) {
			s.settle(d, core.DeadLetterOutcome)
		}
		got, _, err := s.dead().In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(2)}})
		s.wantCode("lock", err, "")
		s.wantBodies("the second", got, "b")
		s.settleAt(s.dead(), got[0], core.Complete)
		s.wantBodies("the others", s.lockAt(s.dead(), 9), "a", "c")
	}},
	{"purging leaves what is locked by number", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		got, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(2)}})
		s.wantCode("lock", err, "")
		s.wantPurge(s.main, 9, 2)
		s.settle(got[0], core.Release)
		s.wantBodies("it is there", s.lock(9), "b")
	}},
	{"locking deferred messages is all or nothing", func(s *fixture) {
		a, b := s.deferOne(text("a")), s.deferOne(text("b"))
		s.lockDeferred(b)
		active := s.send(text("c"))[0]
		scheduled := s.send(text("d", s.after(time.Hour)))[0]
		for what, bad := range map[string][]int64{
			"one under lock":           {a, b},
			"the same twice":           {a, a},
			"one that is available":    {a, active},
			"one that is scheduled":    {a, scheduled},
			"an unknown number":        {a, number(99)},
			"one of another partition": {a, core.SequenceNumber(0, 1)},
			"another partition's own":  {core.SequenceNumber(0, 1)},
		} {
			_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: bad, Deferred: true})
			s.wantCode("lock "+what, err, core.MessageNotFound)
		}
		s.wantBodies("the good one, later", s.lockDeferred(a), "a")
		s.wantBodies("nothing", s.lockDeferred())
	}},
	{"an abandoned deferred message stays deferred and counts", func(s *fixture) {
		n := s.deferOne(text("a"))
		s.settle(s.lockDeferred(n)[0], core.Abandon, properties(s, "x", "1"))
		s.wantBodies("normal flow", s.lock(9))
		d := s.lockDeferred(n)[0]
		want(s, "delivery count", d.DeliveryCount, 2)
		x, _ := d.Properties.Get("x")
		want(s, "property", x, any("1"))
	}},
	{"a released deferred message stays deferred and does not count", func(s *fixture) {
		n := s.deferOne(text("a"))
		s.settle(s.lockDeferred(n)[0], core.Release)
		s.wantBodies("normal flow", s.lock(9))
		want(s, "delivery count", s.lockDeferred(n)[0].DeliveryCount, 1)
	}},
	{"a deferred message whose lock ends stays deferred and counts", func(s *fixture) {
		n := s.deferOne(text("a"))
		d := s.lockDeferred(n)[0]
		s.clock.Advance(lockDuration)
		s.wantBodies("normal flow", s.lock(9))
		s.wantCode("settle after the end", s.trySettle(s.main, d.LockToken, core.Complete, core.Properties{}), core.LockLost)
		want(s, "delivery count", s.lockDeferred(n)[0].DeliveryCount, 2)
	}},
	{"a deferred message can be deferred again, and renewed", func(s *fixture) {
		n := s.deferOne(text("a"))
		d := s.lockDeferred(n)[0]
		s.clock.Advance(time.Second)
		until, err := s.tryRenew(s.main, d.LockToken)
		s.wantCode("renew", err, "")
		s.wantTime("until", until, s.clock.Now().Add(lockDuration))
		s.settle(d, core.Defer)
		want(s, "delivery count", s.lockDeferred(n)[0].DeliveryCount, 2)
	}},
	{"a deferred message that fails too often is dead-lettered", func(s *fixture) {
		s.main.MaxDeliveryCount = 3
		n := s.deferOne(text("a"))
		s.settle(s.lockDeferred(n)[0], core.Abandon)
		s.lockDeferred(n)
		s.clock.Advance(lockDuration)
		s.wantStats("main", s.main, core.Stats{})
		d := s.lockOneAt(s.dead())
		s.wantReason("dead letter", d, core.ReasonMaxDeliveryCount, "Message could not be consumed after 3 delivery attempts.")
		want(s, "state", d.State, core.Active)
	}},
	{"a message that was abandoned and then deferred has both counted", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.Abandon)
		d := s.lockOne()
		s.settle(d, core.Defer)
		want(s, "delivery count", s.lockDeferred(d.SequenceNumber)[0].DeliveryCount, 2)
	}},
}
