package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var pauseStories = []story{
	{"a message that is put off pauses its session, and comes first then", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b")
		s.sendIn("y", "c")
		l := s.acceptNext("x")
		d := s.lockOneIn(l)
		s.putOff(s.main, d, wait(2*lockDuration), properties(s, "x", "1"))
		s.wantBodies("for its holder", s.lockIn(l, 9))
		s.wantBodies("by number", s.lockNumbersIn(l, d.SequenceNumber+1))
		s.wantStats("paused", s.main, core.Stats{Ready: 2, Locked: 1})
		s.wantDescribed("paused", false, []string{"x"}, []core.SessionInfo{{ID: "x", Available: 1, Locked: 1, Delayed: 1, LockedUntil: l.Until}})
		s.wantBodies("peek", s.peek(s.main), "a", "b", "c")
		s.release(l)
		s.wantDescribed("released", false, []string{"x"}, []core.SessionInfo{{ID: "x", Available: 1, Locked: 1, Delayed: 1}})
		s.wantSessionCounts("released", s.main, 0, 1)
		s.sendIn("x", "d")
		s.release(s.acceptNext("y"))
		s.release(s.acceptNext("y")) // not x, which is paused

		l = s.accept("x")
		s.setState(l, []byte("s"))
		s.wantState("of one that is paused", l, []byte("s"))
		s.wantBodies("for who names it", s.lockIn(l, 9))
		s.release(l)
		s.clock.Advance(2*lockDuration - time.Millisecond)
		s.release(s.acceptNext("y"))
		s.clock.Advance(time.Millisecond)
		s.release(s.acceptNext("y")) // y has waited longer
		l = s.acceptNext("x")
		ds := s.lockIn(l, 9)
		s.wantBodies("then", ds, "a", "b", "d")
		want(s, "delivery count", ds[0].DeliveryCount, 1)
		want(s, "number", ds[0].SequenceNumber, d.SequenceNumber)
	})},
	{"a pause lasts until the last message that is put off is back", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c")
		l := s.accept("x")
		ds := s.lockIn(l, 3)
		s.putOff(s.main, ds[1], wait(3*time.Second))
		s.putOff(s.main, ds[0], wait(time.Second))
		s.settle(ds[2], core.Abandon)
		s.wantBodies("both wait", s.lockIn(l, 9))
		s.clock.Advance(time.Second)
		s.wantBodies("one waits", s.lockIn(l, 9))
		s.clock.Advance(2 * time.Second)
		s.wantBodies("none waits", s.lockIn(l, 9), "a", "b", "c")
	})},
	{"a pause outlives the lock of its session", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b")
		l := s.accept("x")
		ds := s.lockIn(l, 2)
		s.putOff(s.main, ds[0], wait(2*lockDuration))
		s.clock.Advance(lockDuration + core.SessionGrace)
		s.acceptNext("")
		want(s, "count of the other", s.peek(s.main)[1].DeliveryCount, 1)
		s.clock.Advance(lockDuration - core.SessionGrace)
		s.wantBodies("then", s.lockIn(s.acceptNext("x"), 9), "a", "b")
	})},
	{"renewals of a session do not extend its pause", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l := s.accept("x")
		s.putOff(s.main, s.lockOneIn(l), wait(time.Second))
		_, err := s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.clock.Advance(time.Second)
		s.wantBodies("then", s.lockIn(l, 9), "a")
	})},
	{"the last failed delivery in a session pauses nothing", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendIn("x", "a", "b")
		l := s.accept("x")
		s.putOff(s.main, s.lockOneIn(l), wait(time.Second))
		s.wantBodies("at once", s.lockIn(l, 9), "b")
		s.wantBodies("dead letters", s.peek(s.dead()), "a")
	})},
	{"a pause ends although its message does not come back", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		s.send(text("a", in("x"), ttl(time.Second)))
		s.sendIn("x", "b")
		l := s.accept("x")
		s.putOff(s.main, s.lockOneIn(l), wait(2*time.Second))
		listen("for its holder", "x", func() { s.wantBodies("arming", s.lockIn(l, 9)) }, func() { s.clock.Advance(2 * time.Second); s.sweep(s.main) })
		d := s.lockOneIn(l)
		s.wantBodies("then", []core.Delivery{d}, "b")
		s.putOff(s.main, d, wait(time.Second))
		s.sendIn("x", "c")
		s.release(l)
		s.main.MaxDeliveryCount = 1
		listen("for any", "", func() { s.acceptNext("") }, func() { s.clock.Advance(time.Second); s.sweep(s.main) })
		s.wantBodies("then", s.lockIn(s.acceptNext("x"), 9), "c")
	})},
	{"who waits hears of a pause, and of its end", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		s.sendIn("x", "a")
		l := s.accept("x")
		d := s.lockOneIn(l)
		arm := func() { s.Helper(); s.wantBodies("arming", s.lockIn(l, 9)) }
		listen("put off", "x", arm, func() { s.putOff(s.main, d, wait(time.Second)) })
		s.wantTime("next", s.sweep(s.main), s.clock.Now().Add(time.Second))
		listen("end", "x", arm, func() { s.clock.Advance(time.Second); s.sweep(s.main) })
		s.putOff(s.main, s.lockOneIn(l), wait(time.Second))
		s.release(l)
		listen("end without a holder", "", func() { s.acceptNext("") }, func() { s.clock.Advance(time.Second); s.sweep(s.main) })
	})},
	{"a deferred message that is put off pauses nothing", withSessions(func(s *fixture) {
		l := s.accept("x")
		n := s.deferIn(l, text("a"))
		s.sendIn("x", "b")
		s.putOff(s.main, s.lockDeferredIn(l, n)[0], wait(time.Second))
		s.wantBodies("meanwhile", s.lockIn(l, 9), "b")
		s.clock.Advance(time.Second)
		want(s, "delivery count", s.lockDeferredIn(l, n)[0].DeliveryCount, 2)
	})},
	{"a session can be cleared while it is paused", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l := s.accept("x")
		s.putOff(s.main, s.lockOneIn(l), wait(time.Hour))
		s.release(l)
		s.wantCode("clear", s.main.In(s.store).Clear(s.Context()), "")
		s.sendIn("x", "b")
		s.wantBodies("then", s.lockIn(s.acceptNext("x"), 9), "b")
	})},
}
