package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// sessionBell returns a function that calls arm and act, and waits until watchers are notified of
// the session wanted or of all ("").
func (s *fixture) sessionBell() (listen func(what, wanted core.SessionKey, arm, act func())) {
	rung := make(chan core.SessionKey, 1000)
	s.Cleanup(s.main.In(s.store).Watch(core.WakeFunc(func(session core.SessionKey) {
		select {
		case rung <- session:
		default:
		}
	})))
	return func(what, wanted core.SessionKey, arm, act func()) {
		s.Helper()
		arm()
		for len(rung) > 0 {
			<-rung
		}
		act()
		timeout := time.After(bellTimeout)
		for {
			select {
			case got := <-rung:
				if got == wanted || got == "" {
					return
				}
			case <-timeout:
				s.Fatalf("%s: nobody rang for %q", what, wanted)
			}
		}
	}
}

var sessionBellStories = []story{
	{"the bell rings for the holder of a session", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		l := s.accept("x")
		arm := func() { s.Helper(); s.wantBodies("arming", s.lockIn(l, 9)) }
		listen("append", "x", arm, func() { s.sendIn("x", "a") })
		d := s.lockOneIn(l)
		listen("abandon", "x", arm, func() { s.settle(d, core.Abandon) })
		d = s.lockOneIn(l)
		listen("release", "x", arm, func() { s.settle(d, core.Release) })
		s.settle(s.lockOneIn(l), core.Complete)
		listen("schedule", "x", arm, func() { s.send(text("b", in("x"), s.after(time.Second))) })
		listen("activation", "x", arm, func() { s.clock.Advance(time.Second); s.sweep(s.main) })
	})},
	{"the bell rings when a session can be accepted", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		arm := func() { s.Helper(); s.acceptNext("") }
		listen("append", "", arm, func() { s.sendIn("x", "a") })
		l := s.acceptNext("x")
		listen("release of the session", "", arm, func() { s.release(l) })
		l = s.acceptNext("x")
		s.lockOneIn(l)
		listen("release of a session whose messages are locked", "", arm, func() { s.release(l) })
		s.acceptNext("x")
		listen("the end of the session's lock", "", arm, func() { s.clock.Advance(sessionEnd); s.sweep(s.main) })
		s.settle(s.lockOneIn(s.acceptNext("x")), core.Complete)
		listen("schedule", "", arm, func() { s.send(text("b", in("y"), s.after(time.Second))) })
		listen("activation", "", arm, func() { s.clock.Advance(time.Second); s.sweep(s.main) })
	})},
	{"the bell rings for a session while another is held", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		x := s.accept("x")
		listen("append to a session that nobody holds", "",
			func() { s.acceptNext("") }, func() { s.sendIn("y", "a") })
		y := s.acceptNext("y")
		s.settle(s.lockOneIn(y), core.Complete)
		armBoth := func() {
			s.Helper()
			s.wantBodies("arming x", s.lockIn(x, 9))
			s.wantBodies("arming y", s.lockIn(y, 9))
			s.acceptNext("")
		}
		listen("append to one held session", "x", armBoth, func() { s.sendIn("x", "b") })
		s.settle(s.lockOneIn(x), core.Complete)
		listen("append to the other held session", "y", armBoth, func() { s.sendIn("y", "c") })
	})},
}
