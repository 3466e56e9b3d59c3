package storetest

import (
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var activateStories = []story{
	{"a deferred message is put back into its place, with its count", func(s *fixture) {
		s.sendTexts("a", "b")
		d := s.lockOne()
		s.settle(d, core.Defer, properties(s, "x", "1"))
		listen := s.bell(s.main)
		s.lockAt(s.main, 9)
		s.lockAt(s.main, 9) // finds no message, so that watchers are notified of the next one
		listen("activated", func() { s.activate("deferred", s.main, d.SequenceNumber, time.Time{}, "") })
		ds := s.lock(9)
		s.wantBodies("then", ds, "a")
		want(s, "count", ds[0].DeliveryCount, 1)
		x, _ := ds[0].Properties.Get("x")
		want(s, "property", x, any("1"))
		want(s, "state", ds[0].State, core.Active)
		s.settle(ds[0], core.Abandon)
		want(s, "count of its next delivery", s.lockOne().DeliveryCount, 2)
		s.activate("that of another partition", s.main, core.SequenceNumber(0, 1), time.Time{}, core.MessageNotFound)
	}},
	{"a deferred message that is locked, or whose time is over", func(s *fixture) {
		s.send(text("a"), text("b", ttl(time.Minute)))
		ds := s.lock(2)
		s.settle(ds[0], core.Defer)
		s.settle(ds[1], core.Defer)
		locked := s.lockDeferred(ds[0].SequenceNumber)[0]
		s.activate("locked", s.main, ds[0].SequenceNumber, time.Time{}, "")
		s.wantCode("its lock", s.trySettle(s.main, locked.LockToken, core.Complete, core.Properties{}), core.LockLost)
		s.clock.Advance(time.Hour)
		s.activate("expired", s.main, ds[1].SequenceNumber, time.Time{}, "")
		s.wantBodies("then", s.lock(9), "a")
		s.wantStats("main", s.main, core.Stats{Locked: 1})
	}},
	{"a locked message is unlocked without its token, and no failed delivery counts", func(s *fixture) {
		const many = 300
		for i := range many {
			s.send(text(fmt.Sprint(i)))
		}
		ds := s.lock(many)
		for _, i := range []int{0, 127, 128, 200, many - 1} {
			s.activate("locked", s.main, ds[i].SequenceNumber, time.Time{}, "")
			s.activate("twice", s.main, ds[i].SequenceNumber, time.Time{}, core.MessageNotFound)
			s.activate("rescheduled", s.main, ds[i+1-2*(i/(many-1))].SequenceNumber, s.clock.Now().Add(time.Hour), core.MessageNotFound)
			s.wantCode("its lock", s.trySettle(s.main, ds[i].LockToken, core.Complete, core.Properties{}), core.LockLost)
		}
		again := s.lock(many)
		s.wantBodies("then", again, "0", "127", "128", "200", fmt.Sprint(many-1))
		want(s, "count", again[0].DeliveryCount, 0)
		s.settle(ds[1], core.Complete)
		s.wantStats("main", s.main, core.Stats{Locked: many - 1})
	}},
	{"many messages in all states are activated in one call", func(s *fixture) {
		const many = 300
		for i := range many {
			s.send(text(fmt.Sprint(i)))
		}
		scheduled := s.send(text("due", s.after(time.Hour)), text("later", s.after(time.Hour)))
		ds := s.lock(many)
		s.settle(ds[1], core.Defer)
		s.settle(ds[2], core.Defer)
		s.lockDeferred(ds[2].SequenceNumber)
		s.putOff(s.main, ds[3], wait(time.Hour))
		s.settle(ds[4], core.Complete)
		var settlements []core.Settlement
		var want []core.Code
		add := func(number int64, at time.Time, code core.Code) {
			index, n := core.SplitSequenceNumber(number)
			settlements = append(settlements, core.Settlement{Token: core.NewLockToken(index, n, 0), Outcome: core.Activate, At: at})
			want = append(want, code)
		}
		for _, i := range []int{200, 0, 1, 2, 3, 127, 128} {
			add(ds[i].SequenceNumber, s.clock.Now().Add(time.Hour), core.MessageNotFound) // only a scheduled message may get a time
			add(ds[i].SequenceNumber, time.Time{}, "")
			add(ds[i].SequenceNumber, time.Time{}, core.MessageNotFound)
		}
		add(ds[4].SequenceNumber, time.Time{}, core.MessageNotFound)
		add(core.SequenceNumber(0, 1), time.Time{}, core.MessageNotFound)
		add(scheduled[0], time.Time{}, "")
		add(scheduled[1], s.clock.Now().Add(2*time.Hour), "")
		for i, err := range s.main.In(s.store).Settle(s.Context(), settlements) {
			s.wantCode(fmt.Sprintf("activate %d", i), err, want[i])
		}
		s.wantBodies("then", s.lock(many), "0", "1", "2", "3", "127", "128", "200", "due")
		s.wantStats("main", s.main, core.Stats{Locked: many, Scheduled: 1})
	}},
	{"a delay ends", func(s *fixture) {
		s.sendTexts("a", "b")
		ds := s.lock(2)
		s.putOff(s.main, ds[0], wait(time.Hour))
		p := s.main.In(s.store)
		if err := p.Settle(s.Context(), []core.Settlement{{Token: ds[1].LockToken, Outcome: core.Release, Backoff: wait(time.Hour)}})[0]; err != nil {
			s.Fatal(err)
		}
		s.activate("abandoned", s.main, ds[0].SequenceNumber, time.Time{}, "")
		s.activate("released", s.main, ds[1].SequenceNumber, time.Time{}, "")
		s.wantBodies("then", s.lock(9), "a", "b")
	}},
	{"a locked dead letter is unlocked", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		d := s.lockOneAt(s.dead())
		s.activate("dead letter", s.dead(), d.SequenceNumber, time.Time{}, "")
		s.wantBodies("then", s.lockAt(s.dead(), 9), "a")
	}},
	{"a scheduled message becomes due now", func(s *fixture) {
		n := s.send(text("a", id("m"), s.after(time.Hour), ttl(2*time.Hour)))[0]
		s.clock.Advance(time.Minute)
		listen := s.bell(s.main)
		s.lock(1)
		listen("activated", func() { s.activate("scheduled", s.main, n, time.Time{}, "") })
		d := s.lockOne()
		want(s, "id", d.MessageID, core.StringID("m"))
		want(s, "count", d.DeliveryCount, 0)
		want(s, "enqueued", d.EnqueuedTime, s.clock.Now())
		want(s, "expires", d.ExpiresAt, s.clock.Now().Add(2*time.Hour))
		want(s, "due", d.ScheduledEnqueueTime.UnixMilli(), s.clock.Now().UnixMilli())
		s.activate("twice", s.main, n, time.Time{}, core.MessageNotFound)
		s.clock.Advance(time.Hour)
		s.wantStats("an hour later", s.main, core.Stats{Ready: 1})
	}},
	{"a scheduled message is moved to an earlier and to a later time", func(s *fixture) {
		numbers := s.send(text("a", s.after(time.Hour)), text("b", s.after(time.Hour)))
		sooner, later := s.clock.Now().Add(time.Minute), s.clock.Now().Add(2*time.Hour)
		s.activate("sooner", s.main, numbers[0], sooner, "")
		s.activate("later", s.main, numbers[1], later, "")
		for i, want := range []time.Time{sooner, later} {
			if at := s.peek(s.main)[i].ScheduledEnqueueTime; !at.Equal(want) {
				s.Errorf("message %d is due at %v, want %v", i, at, want)
			}
		}
		for _, x := range s.export(s.main.Ref) {
			if x.Kind == core.StoredMessage && !x.ScheduledEnqueueTime.Equal(sooner) && !x.ScheduledEnqueueTime.Equal(later) {
				s.Errorf("exported with %v", x.ScheduledEnqueueTime)
			}
		}
		s.clock.Advance(time.Minute - time.Millisecond)
		s.wantBodies("too early", s.lock(9))
		s.clock.Advance(time.Millisecond)
		s.wantBodies("sooner", s.lock(9), "a")
		s.clock.Advance(time.Hour)
		s.activate("a time in the past is now", s.main, numbers[1], s.clock.Now().Add(-time.Minute), "")
		s.wantBodies("later", s.lock(9), "a", "b")
	}},
	{"messages of sessions are activated", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c")
		l := s.accept("x")
		ds := s.lockIn(l, 3)
		s.settle(ds[0], core.Defer)
		s.activate("locked in the session", s.main, ds[1].SequenceNumber, time.Time{}, core.SessionLocked)
		s.activate("deferred", s.main, ds[0].SequenceNumber, time.Time{}, "")
		s.wantBodies("for its holder", s.lockIn(l, 9), "a")
		s.putOff(s.main, ds[1], wait(time.Hour))
		s.release(l)
		s.acceptNext("")
		s.activate("paused", s.main, ds[1].SequenceNumber, time.Time{}, "")
		s.wantBodies("in order", s.lockIn(s.acceptNext("x"), 9), "a", "b", "c")
		s.wantDescribed("at last", false, []string{"x"}, []core.SessionInfo{{ID: "x", Locked: 3, LockedUntil: s.clock.Now().Add(lockDuration)}})
	})},
	{"a session is released without the proof of its lock", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		p := s.main.In(s.store)
		any := core.SessionLock{ID: "x", Index: fixtureIndex}
		s.wantCode("not locked", p.ReleaseSession(s.Context(), any), core.SessionLockLost)
		for _, l := range []core.SessionLock{s.accept("x")} {
			d := s.lockOneIn(l)
			_, err := p.RenewSession(s.Context(), any)
			s.wantCode("renew without the proof", err, core.SessionLockLost)
			if err := p.ReleaseSession(s.Context(), any); err != nil {
				s.Fatal(err)
			}
			s.wantCode("settle", s.trySettle(s.main, d.LockToken, core.Complete, core.Properties{}), core.SessionLockLost)
			_, err = p.RenewSession(s.Context(), l)
			s.wantCode("renew", err, core.SessionLockLost)
		}
		s.acceptShared("x")
		if err := p.ReleaseSession(s.Context(), any); err != nil {
			s.Fatal(err)
		}
		d := s.lockOneIn(s.acceptNext("x"))
		want(s, "count", d.DeliveryCount, 0)
	})},
}

func (s *fixture) activate(what string, p core.Partition, n int64, at time.Time, want core.Code) {
	s.Helper()
	index, position := core.SplitSequenceNumber(n)
	err := p.In(s.store).Settle(s.Context(), []core.Settlement{{Token: core.NewLockToken(index, position, 0), Outcome: core.Activate, At: at}})[0]
	s.wantCode(what, err, want)
}
