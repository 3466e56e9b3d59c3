package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func in(session string) func(*core.Message) {
	return func(m *core.Message) { enter(m, session) }
}

func enter(m *core.Message, session string) {
	m.SessionID, m.EmptyText = session, m.EmptyText|core.FieldSessionID // the bit has no meaning unless the id is empty
}

func withSessions(tell func(*fixture)) func(*fixture) {
	return func(s *fixture) {
		s.main.Sessions = true
		tell(s)
	}
}

func (s *fixture) sendIn(session string, bodies ...string) {
	s.Helper()
	for _, body := range bodies {
		s.send(text(body, in(session)))
	}
}

func (s *fixture) accept(session string) core.SessionLock {
	s.Helper()
	l, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: session})
	if err != nil {
		s.Fatalf("accept session %q: %v", session, err)
	}
	return l
}

// acceptNext locks the next session, whose id must be wanted; if wanted is "", none may wait.
func (s *fixture) acceptNext(wanted string) core.SessionLock {
	s.Helper()
	l, ok, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{Next: true})
	if err != nil || ok != (wanted != "") || l.ID != wanted {
		s.Fatalf("accept the next session: got %q, %t, %v, want %q", l.ID, ok, err, wanted)
	}
	return l
}

func (s *fixture) tryLockIn(l core.SessionLock, limit int) ([]core.Delivery, error) {
	s.Helper()
	ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: limit}, Session: &l})
	return ds, err
}

func (s *fixture) lockIn(l core.SessionLock, limit int) []core.Delivery {
	s.Helper()
	ds, err := s.tryLockIn(l, limit)
	if err != nil {
		s.Fatalf("lock %d in session %q: %v", limit, l.ID, err)
	}
	return ds
}

func (s *fixture) lockOneIn(l core.SessionLock) core.Delivery {
	s.Helper()
	ds := s.lockIn(l, 1)
	if len(ds) != 1 {
		s.Fatalf("lock 1 in session %q: got %d messages", l.ID, len(ds))
	}
	return ds[0]
}

func (s *fixture) release(l core.SessionLock) {
	s.Helper()
	s.wantCode("release session "+l.ID, s.main.In(s.store).ReleaseSession(s.Context(), l), "")
}

func (s *fixture) deferIn(l core.SessionLock, m *core.Message) int64 {
	s.Helper()
	enter(m, l.ID)
	s.send(m)
	d := s.lockOneIn(l)
	s.settle(d, core.Defer)
	return d.SequenceNumber
}

func (s *fixture) lockDeferredIn(l core.SessionLock, numbers ...int64) []core.Delivery {
	s.Helper()
	ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: numbers, Deferred: true, Session: &l})
	if err != nil {
		s.Fatalf("lock deferred %v in session %q: %v", numbers, l.ID, err)
	}
	return ds
}

func (s *fixture) lockNumbersIn(l core.SessionLock, numbers ...int64) []core.Delivery {
	s.Helper()
	ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: numbers, Session: &l})
	if err != nil {
		s.Fatalf("lock %v in session %q: %v", numbers, l.ID, err)
	}
	return ds
}

func (s *fixture) setState(l core.SessionLock, state []byte) {
	s.Helper()
	s.wantCode("set state of session "+l.ID, s.main.In(s.store).SetSessionState(s.Context(), l, state), "")
}

func (s *fixture) wantState(what string, l core.SessionLock, wanted []byte) {
	s.Helper()
	got, err := s.main.In(s.store).SessionState(s.Context(), l)
	if err != nil || string(got) != string(wanted) || (got == nil) != (wanted == nil) {
		s.Fatalf("%s: state: got %#v, %v, want %#v", what, got, err, wanted)
	}
}

func (s *fixture) wantSessions(what string, since time.Time, after core.SessionKey, top int, wanted ...string) {
	s.Helper()
	got, err := s.main.In(s.store).ListSessions(s.Context(), since, after, top)
	if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", wanted) {
		s.Fatalf("%s: sessions: got %q, %v, want %q", what, got, err, wanted)
	}
}

func (s *fixture) wantDescribed(what string, content bool, ids []string, wanted []core.SessionInfo) {
	s.Helper()
	got, err := s.main.In(s.store).DescribeSessions(s.Context(), ids, content)
	if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", wanted) {
		s.Fatalf("%s: described:\n got %+v, %v\nwant %+v", what, got, err, wanted)
	}
}

func (s *fixture) wantLost(what string, l core.SessionLock, token core.LockToken, deferred int64) {
	s.Helper()
	_, err := s.main.In(s.store).RenewSession(s.Context(), l)
	s.wantCode(what+": renew session", err, core.SessionLockLost)
	s.wantCode(what+": release session", s.main.In(s.store).ReleaseSession(s.Context(), l), core.SessionLockLost)
	_, err = s.tryLockIn(l, 1)
	s.wantCode(what+": lock in session", err, core.SessionLockLost)
	_, err = s.main.In(s.store).SessionState(s.Context(), l)
	s.wantCode(what+": state", err, core.SessionLockLost)
	s.wantCode(what+": set state", s.main.In(s.store).SetSessionState(s.Context(), l, []byte("x")), core.SessionLockLost)
	_, _, err = s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{deferred}, Deferred: true, Session: &l})
	s.wantCode(what+": lock deferred", err, core.SessionLockLost)
	_, _, err = s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(1)}, Session: &l})
	s.wantCode(what+": lock by number", err, core.SessionLockLost)
	if token.IsZero() {
		return
	}
	for o := core.Complete; o <= core.Release; o++ {
		s.wantCode(what+": "+o.String(), s.trySettle(s.main, token, o, core.Properties{}), core.SessionLockLost)
	}
	_, err = s.tryRenew(s.main, token)
	s.wantCode(what+": renew", err, core.SessionLockLost)
}

var sessionStories = []story{
	{"a session is accepted by name, whether or not it has messages", withSessions(func(s *fixture) {
		s.sendIn("full", "a")
		for _, name := range []string{"empty", "full", "with spaces, é, \x01 and :{}"} {
			l := s.accept(name)
			want(s, "id", l.ID, name)
			want(s, "index", l.Index, fixtureIndex)
			s.wantTime("until", l.Until, s.clock.Now().Add(lockDuration))
		}
	})},
	{"a session has one holder at a time", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l := s.accept("x")
		_, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "x"})
		s.wantCode("accept what is held", err, core.SessionLocked)
		s.acceptNext("")
		s.accept("y")
		s.release(l)
		l = s.acceptNext("x")
		_, _, _, err = s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "x"})
		s.wantCode("accept what is held again", err, core.SessionLocked)
		s.clock.Advance(sessionEnd - time.Millisecond)
		_, _, _, err = s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "x"})
		s.wantCode("accept one millisecond early", err, core.SessionLocked)
		s.clock.Advance(time.Millisecond)
		if again := s.accept("x"); again.Nonce == l.Nonce {
			s.Fatalf("nonce of the second lock: got %d again", l.Nonce)
		}
	})},
	{"sessions of different partitions are different", withSessions(func(s *fixture) {
		s.accept("x")
		s.main.Index = 0
		want(s, "index", s.accept("x").Index, 0)
	})},
	{"who holds a session gets all of its messages and no others, by number", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		s.sendIn("y", "b")
		s.sendIn("x", "c", "d")
		l := s.accept("x")
		ds := s.lockIn(l, 2)
		s.wantBodies("first", ds, "a", "c")
		for i, d := range ds {
			want(s, "number", d.SequenceNumber, number(int64(1+2*i)))
			want(s, "session", d.SessionID, "x")
			want(s, "token", d.LockToken, core.NewLockToken(fixtureIndex, int64(1+2*i), l.Nonce))
			s.wantTime("locked until", d.LockedUntil, l.Until)
			want(s, "delivery count", d.DeliveryCount, 0)
		}
		s.wantBodies("asking for nothing", s.lockIn(l, 0))
		s.wantBodies("rest", s.lockIn(l, 9), "d")
		s.sendIn("x", "e")
		s.sendIn("y", "f")
		s.wantBodies("what comes later", s.lockIn(l, 9), "e")
		s.wantStats("in between", s.main, core.Stats{Ready: 2, Locked: 4})
		s.wantSessionCounts("in between", s.main, 1, 1)
		s.wantBodies("the other session", s.lockIn(s.accept("y"), 9), "b", "f")
		s.wantSessionCounts("with both", s.main, 2, 0)
	})},
	{"a message in a session is delivered as it was accepted", withSessions(func(s *fixture) {
		for _, m := range fullMessages(s) {
			s.send(m)
			l := s.accept(m.SessionID)
			d := s.lockOneIn(l)
			var diff differences
			diffMessage(&diff, d.Message, m)
			want(s, "differences", diff.String(), "")
			s.settle(d, core.Complete)
			s.release(l)
		}
	})},
	{"messages with sessions cannot be locked without", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
		s.wantCode("lock", err, core.NotAllowed)
		s.wantStats("after", s.main, core.Stats{Ready: 1})
	})},
	{"where sessions are not required a session id is a property like others", func(s *fixture) {
		s.sendIn("x", "a")
		s.sendIn("y", "b")
		s.wantBodies("messages", s.lock(9), "a", "b")
	}},
	{"the next session is the one that has waited longest", withSessions(func(s *fixture) {
		s.sendIn("y", "1")
		s.sendIn("x", "2")
		s.sendIn("z", "3")
		s.sendIn("y", "4")
		y := s.acceptNext("y")
		s.settle(s.lockOneIn(y), core.Complete)
		s.release(y)
		x := s.acceptNext("x")
		z := s.acceptNext("z")
		y = s.acceptNext("y")
		s.acceptNext("")
		s.release(z)
		s.release(x)
		s.release(y)
		z = s.acceptNext("z")
		s.settle(s.lockOneIn(z), core.Complete)
		s.release(z)
		s.sendIn("z", "5")
		for _, session := range []string{"x", "y", "z"} {
			s.acceptNext(session)
		}
	})},
	{"a session that is released again and again lets others come first", withSessions(func(s *fixture) {
		for range 200 {
			s.sendIn("many", "a")
		}
		for i := range 5 {
			s.sendIn("one"+fmt.Sprint(i), "b")
		}
		for _, session := range []string{"many", "one0", "one1", "one2", "one3", "one4", "many", "many"} {
			l := s.acceptNext(session)
			s.settle(s.lockOneIn(l), core.Complete)
			s.release(l)
		}
	})},
	{"a waiting session keeps its place when its first messages expire and others arrive", withSessions(func(s *fixture) {
		s.send(text("a", in("x"), ttl(time.Second)))
		s.sendIn("y", "b")
		s.sendIn("x", "c")
		s.clock.Advance(time.Second)
		s.wantBodies("expired", s.peek(s.main), "b", "c")
		s.acceptNext("x")
		s.acceptNext("y")
	})},
	{"a session whose messages have all expired begins to wait anew", withSessions(func(s *fixture) {
		s.send(text("a", in("x"), ttl(time.Second)))
		s.sendIn("y", "b")
		s.clock.Advance(time.Second)
		s.wantBodies("expired", s.peek(s.main), "b")
		s.sendIn("x", "c")
		s.acceptNext("y")
		s.acceptNext("x")
	})},
	{"sessions whose locks end queue up by the ends, then by key", withSessions(func(s *fixture) {
		for _, session := range []string{"a", "c", "b", "d"} {
			s.sendIn(session, "1")
		}
		s.lockOneIn(s.acceptNext("a"))
		s.clock.Advance(time.Second)
		s.lockOneIn(s.acceptNext("c"))
		s.lockOneIn(s.acceptNext("b"))
		s.clock.Advance(sessionEnd)
		for _, session := range []string{"d", "a", "b", "c"} {
			s.acceptNext(session)
		}
	})},
	{"a session without available messages is not next", withSessions(func(s *fixture) {
		l := s.accept("deferred")
		s.deferIn(l, text("a"))
		s.setState(l, []byte("state"))
		s.release(l)
		s.send(text("b", in("scheduled"), s.after(time.Hour)))
		s.send(text("c", in("short"), ttl(time.Second)))
		s.clock.Advance(time.Second)
		s.acceptNext("")
		s.sendIn("deferred", "d")
		s.wantBodies("messages", s.lockIn(s.acceptNext("deferred"), 9), "d")
	})},
	{"who finds no session learns when to ask again", withSessions(func(s *fixture) {
		start := s.clock.Now()
		next := func() time.Time {
			s.Helper()
			_, ok, next, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{Next: true})
			s.wantCode("accept the next session", err, "")
			want(s, "found", ok, false)
			s.wantTime("next of sweep and accept", s.sweep(s.main), next)
			return next
		}
		s.wantTime("next of an empty partition", next(), time.Time{})
		s.send(text("a", in("x"), s.after(time.Hour)))
		s.wantTime("next with a schedule", next(), start.Add(time.Hour))
		l := s.accept("y")
		s.wantTime("next with a session lock", next(), start.Add(sessionEnd))
		s.clock.Advance(time.Second)
		_, err := s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.wantTime("next after renewal", next(), start.Add(sessionEnd+time.Second))
		s.release(l)
		s.wantTime("next after release", next(), start.Add(time.Hour))
	})},
	{"who finds no message in a session learns when to ask again", withSessions(func(s *fixture) {
		l := s.accept("x")
		s.send(text("a", in("x"), s.after(time.Second)))
		ds, next, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 5}, Session: &l})
		s.wantCode("lock", err, "")
		s.wantBodies("lock", ds)
		if now := s.clock.Now(); !next.After(now) || next.After(now.Add(time.Second)) {
			s.Fatalf("next: got %v, want %v or sooner", next, now.Add(time.Second))
		}
		s.clock.Advance(time.Second)
		s.wantBodies("then", s.lockIn(l, 5), "a")
	})},
	{"an abandoned message comes back to the holder, at its subject, and counts", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c", "d")
		l := s.accept("x")
		ds := s.lockIn(l, 3)
		s.settle(ds[1], core.Abandon, properties(s, "k", "v"))
		s.settle(ds[0], core.Release)
		s.acceptNext("")
		ds = s.lockIn(l, 9)
		s.wantBodies("again", ds, "a", "b", "d")
		want(s, "count of the released", ds[0].DeliveryCount, 0)
		want(s, "count of the abandoned", ds[1].DeliveryCount, 1)
		k, _ := ds[1].Properties.Get("k")
		want(s, "property", k, any("v"))
	})},
	{"messages of a session are settled like others", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c", "d")
		l := s.accept("x")
		ds := s.lockIn(l, 9)
		s.settle(ds[0], core.Complete)
		s.settle(ds[1], core.Defer)
		s.settle(ds[2], core.DeadLetterOutcome, properties(s, core.PropertyDeadLetterReason, "r", core.PropertyDeadLetterDescription, "d"))
		s.wantStats("main", s.main, core.Stats{Locked: 1, Deferred: 1})
		s.wantReason("dead letter", s.lockOneAt(s.dead()), "r", "d")
		for _, done := range ds[:3] {
			s.wantCode("settled", s.trySettle(s.main, done.LockToken, core.Complete, core.Properties{}), core.SessionLockLost)
		}
		s.settle(ds[3], core.Complete)
	})},
	{"releasing a session releases its messages, without a failed delivery", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendIn("x", "a", "b", "c")
		for range 3 {
			l := s.acceptNext("x")
			ds := s.lockIn(l, 2)
			s.wantBodies("messages", ds, "a", "b")
			for _, d := range ds {
				want(s, "delivery count", d.DeliveryCount, 0)
			}
			s.release(l)
			s.wantLost("released", l, ds[0].LockToken, 0)
			s.wantStats("released", s.main, core.Stats{Ready: 3})
		}
	})},
	{"when a session's lock ends its messages have failed", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 2
		s.sendIn("x", "a", "b", "c")
		l := s.accept("x")
		d := s.lockIn(l, 2)[0]
		s.clock.Advance(sessionEnd)
		s.wantLost("expired", l, d.LockToken, 0)
		s.wantStats("expired", s.main, core.Stats{Ready: 3})
		l = s.acceptNext("x")
		ds := s.lockIn(l, 9)
		s.wantBodies("again", ds, "a", "b", "c")
		for i, count := range []uint32{1, 1, 0} {
			want(s, "delivery count", ds[i].DeliveryCount, count)
		}
		s.clock.Advance(sessionEnd)
		s.wantBodies("dead letters", s.peek(s.dead()), "a", "b")
		s.wantBodies("left", s.peek(s.main), "c")
	})},
	{"locks of several sessions end by their ends, then by number", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendIn("y", "1")
		s.sendIn("x", "2")
		s.sendIn("z", "3")
		s.sendIn("y", "4")
		s.sendIn("x", "5")
		for _, session := range []string{"x", "z", "y"} {
			s.lockIn(s.accept(session), 9)
			if session == "x" {
				s.clock.Advance(time.Second)
			}
		}
		s.clock.Advance(time.Hour)
		s.wantBodies("dead letters", s.peek(s.dead()), "2", "5", "1", "3", "4")
	})},
	{"renewing a session renews its messages' locks", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b")
		l := s.accept("x")
		ds := s.lockIn(l, 1)
		s.clock.Advance(20 * time.Second)
		until, err := s.tryRenew(s.main, ds[0].LockToken)
		s.wantCode("renew a message", err, "")
		s.wantTime("a message renewed", until, l.Until)
		until, err = s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.wantTime("until", until, s.clock.Now().Add(lockDuration))
		got, err := s.tryRenew(s.main, ds[0].LockToken)
		s.wantCode("renew a message", err, "")
		s.wantTime("a message renewed after the session", got, until)
		s.clock.Advance(sessionEnd - time.Millisecond)
		ds = append(ds, s.lockIn(l, 1)...)
		s.wantTime("locked later", ds[1].LockedUntil, until)
		for _, d := range ds {
			s.settle(d, core.Complete)
		}
		s.clock.Advance(time.Millisecond)
		s.wantLost("at the new end", l, core.LockToken{}, 0)
	})},
	{"a lock that is not the session's is good for nothing", withSessions(func(s *fixture) {
		l := s.accept("x")
		n := s.deferIn(l, text("b"))
		other := s.accept("other")
		forged, renamed, elsewhere, swapped := l, l, l, other
		forged.Nonce++
		renamed.ID = "nobody's"
		elsewhere.Index = 0
		swapped.ID = "x"
		for what, bad := range map[string]core.SessionLock{
			"forged": forged, "renamed": renamed, "of another partition": elsewhere, "of another session": swapped, "zero": {},
		} {
			s.wantLost(what, bad, core.LockToken{}, n)
		}
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{n}, Deferred: true})
		s.wantCode("lock deferred without a session", err, core.SessionLockLost)
		late := l
		late.Until = time.Time{}
		s.wantBodies("until does not matter", s.lockDeferredIn(late, n), "b")
	})},
	{"the old holder of a session that has a new one has lost it", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		old := s.accept("x")
		d := s.lockOneIn(old)
		s.clock.Advance(sessionEnd)
		l := s.accept("x")
		again := s.lockOneIn(l)
		s.wantLost("old", old, d.LockToken, 0)
		s.settle(again, core.Complete)
		s.release(l)
	})},
	{"a message that expires is out of its session", withSessions(func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.send(text("a", in("x"), ttl(time.Second)), text("b", in("y"), ttl(time.Hour)), text("c", in("x")))
		l := s.accept("x")
		s.clock.Advance(time.Second)
		s.wantBodies("left", s.lockIn(l, 9), "c")
		s.wantReason("dead letter", s.lockOneAt(s.dead()), core.ReasonExpired, core.DescriptionExpired)
		s.acceptNext("y")
	})},
	{"a time to live that ends under a session's lock takes effect when that ends", withSessions(func(s *fixture) {
		s.send(text("a", in("x"), ttl(time.Second)), text("b", in("x"), ttl(time.Second)))
		l := s.accept("x")
		ds := s.lockIn(l, 2)
		s.clock.Advance(2 * time.Second)
		s.wantStats("under lock", s.main, core.Stats{Locked: 2})
		s.settle(ds[0], core.Complete)
		s.release(l)
		s.wantStats("released", s.main, core.Stats{})
	})},
	{"a scheduled message joins its session when it is due", withSessions(func(s *fixture) {
		s.send(text("a", in("x"), s.after(time.Second)))
		s.sendIn("x", "b")
		l := s.accept("x")
		s.wantBodies("before", s.lockIn(l, 9), "b")
		s.clock.Advance(time.Second)
		ds := s.lockIn(l, 9)
		s.wantBodies("then", ds, "a")
		want(s, "number", ds[0].SequenceNumber, number(3))
		s.send(text("c", in("y"), s.after(time.Second)))
		s.acceptNext("")
		s.clock.Advance(time.Second)
		s.wantBodies("another session", s.lockIn(s.acceptNext("y"), 9), "c")
	})},
	{"dead letters belong to no session", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		s.sendIn("y", "b")
		for _, session := range []string{"x", "y"} {
			l := s.accept(session)
			s.settle(s.lockOneIn(l), core.DeadLetterOutcome)
			s.release(l)
		}
		ds := s.lockAt(s.dead(), 9)
		s.wantBodies("dead letters", ds, "a", "b")
		want(s, "session id", ds[1].SessionID, "y")
		s.settleAt(s.dead(), ds[0], core.Defer)
		got, _, err := s.dead().In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{ds[0].SequenceNumber}, Deferred: true})
		s.wantCode("lock deferred", err, "")
		s.wantBodies("deferred", got, "a")
		s.settleAt(s.dead(), ds[1], core.Complete)
		s.wantCode("settle twice", s.trySettle(s.dead(), ds[1].LockToken, core.Complete, core.Properties{}), core.LockLost)
	})},
	{"asking the dead letters ends locks of sessions and activates schedules", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 1
		s.sendIn("x", "a")
		l := s.accept("x")
		s.lockOneIn(l)
		s.send(text("b", in("y"), s.after(lockDuration)))
		s.clock.Advance(sessionEnd)
		s.wantBodies("dead letters", s.lockAt(s.dead(), 9), "a")
		s.wantLost("the session", l, core.LockToken{}, 0)
		s.wantBodies("activated", s.lockIn(s.acceptNext("y"), 9), "b")
	})},
	{"what the holder of a session does a moment after the end of its lock counts", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b")
		l := s.accept("x")
		ds := s.lockIn(l, 2)
		s.wantTime("locked until", ds[0].LockedUntil, l.Until)
		s.clock.Advance(sessionEnd - time.Millisecond)
		s.wantBodies("peeked", s.peek(s.main), "a", "b")
		_, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "x"})
		s.wantCode("accept by another", err, core.SessionLocked)
		s.acceptNext("")
		s.settle(ds[0], core.Complete)
		s.setState(l, []byte("state"))
		until, err := s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.wantTime("until", until, s.clock.Now().Add(lockDuration))
		s.clock.Advance(sessionEnd - time.Millisecond)
		s.settle(ds[1], core.Complete)
		s.clock.Advance(time.Millisecond)
		s.wantLost("over", l, ds[1].LockToken, 0)
	})},
	{"an empty session can be held, renewed and released", withSessions(func(s *fixture) {
		l := s.accept("x")
		s.clock.Advance(time.Second)
		until, err := s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.wantTime("until", until, s.clock.Now().Add(lockDuration))
		s.wantTime("next", s.sweep(s.main), until.Add(core.SessionGrace))
		s.clock.Advance(sessionEnd - time.Millisecond)
		s.release(l)
		s.wantTime("next", s.sweep(s.main), time.Time{})
		l = s.accept("x")
		s.clock.Advance(sessionEnd)
		s.wantTime("next", s.sweep(s.main), time.Time{})
		s.wantLost("expired", l, core.LockToken{}, 0)
	})},
	{"many sessions that end at once all end", withSessions(func(s *fixture) {
		const n = 600
		var group []*core.Message
		for i := range n {
			group = append(group, text("x", in(fmt.Sprint(i))))
		}
		s.send(group...)
		for i := range n {
			s.lockOneIn(s.acceptNext(fmt.Sprint(i)))
		}
		s.wantSessionCounts("held", s.main, 600, 0)
		s.wantStats("held", s.main, core.Stats{Locked: n})
		s.clock.Advance(sessionEnd)
		s.wantStats("ended", s.main, core.Stats{Ready: n})
		want(s, "delivery count", s.lockOneIn(s.acceptNext("0")).DeliveryCount, 1)
	})},
	{"peek and stats look past sessions", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		s.sendIn("y", "b")
		s.lockOneIn(s.accept("y"))
		s.send(text("c", in("z"), s.after(time.Hour)))
		s.wantBodies("peeked", s.peek(s.main), "a", "b", "c")
		s.wantStats("stats", s.main, core.Stats{Ready: 1, Locked: 1, Scheduled: 1})
	})},
	{"duplicate detection looks past sessions in an entity with one partition", withSessions(func(s *fixture) {
		s.main.DuplicateWindow, s.main.Partitioned = time.Minute, false
		s.send(text("a", in("x"), id("1")))
		want(s, "number of the duplicate", s.send(text("b", in("y"), id("1")))[0], 0)
		s.acceptNext("x")
		s.acceptNext("")
	})},
	{"operations with sessions on an unknown partition", withSessions(func(s *fixture) {
		known := s.main
		for _, ref := range []core.Ref{{Entity: "nosuch"}, {Entity: s.entity.ID, Index: fixturePartitions}} {
			s.main = known
			s.main.Ref = ref
			s.wantUnknownSessions(core.NewLockToken(ref.Index, 1, 1))
		}
	})},
	{"the sessions of a deleted entity are gone", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l := s.accept("x")
		d := s.lockOneIn(l)
		s.setState(l, []byte("state"))
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "orders"), "")
		s.wantLost("deleted", l, d.LockToken, 0)
		s.wantUnknownSessions(d.LockToken)
		s.main.Entity = s.create(newEntity("orders", "q2")).ID
		s.wantLost("created again", l, d.LockToken, 0)
		s.wantSessions("created again", time.Time{}, "", 9)
		s.wantState("created again", s.accept("x"), nil)
	})},
}

// The partition must not exist.
func (s *fixture) wantUnknownSessions(token core.LockToken) {
	s.Helper()
	_, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "x"})
	s.wantCode("accept session", err, core.NotFound)
	_, ok, next, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{Next: true})
	s.wantCode("accept the next session", err, "")
	want(s, "accepted", ok, false)
	s.wantTime("next", next, time.Time{})
	s.wantLost("unknown", core.SessionLock{ID: "x", Index: s.main.Index, Nonce: 1}, token, token.SequenceNumber())
	s.wantSessions("unknown", time.Time{}, "", math.MaxInt32)
	a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text("a", in("x"))}})
	s.wantCode("append", a[0].Err, core.NotFound)
}

var sessionStateStories = []story{
	{"a session keeps its state until it is set to nil", withSessions(func(s *fixture) {
		l := s.accept("x")
		s.wantState("at first", l, nil)
		s.setState(l, []byte{0, 1, 0xff, '\r', '\n'})
		s.wantState("set", l, []byte{0, 1, 0xff, '\r', '\n'})
		s.setState(l, []byte("more"))
		s.wantState("set again", l, []byte("more"))
		s.setState(l, nil)
		s.wantState("cleared", l, nil)
		s.setState(l, nil)
		s.wantState("cleared again", l, nil)
	})},
	{"an empty state is a state", withSessions(func(s *fixture) {
		l := s.accept("x")
		s.setState(l, []byte{})
		s.wantState("empty", l, []byte{})
		s.release(l)
		s.wantSessions("listed", time.Time{}, "", 9, "x")
		s.wantState("later", s.accept("x"), []byte{})
	})},
	{"state outlives locks, messages and time", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l := s.accept("x")
		s.setState(l, []byte("state"))
		s.settle(s.lockOneIn(l), core.Complete)
		s.wantState("without messages", l, []byte("state"))
		s.release(l)
		l = s.accept("x")
		s.wantState("after release", l, []byte("state"))
		s.clock.Advance(100 * 24 * time.Hour)
		l = s.accept("x")
		s.wantState("after the lock's end", l, []byte("state"))
		s.wantState("of another session", s.accept("y"), nil)
	})},
	{"a big state is kept", withSessions(func(s *fixture) {
		state := make([]byte, 256<<10)
		state[len(state)-1] = 1
		l := s.accept("x")
		s.setState(l, state)
		s.wantState("big", l, state)
	})},
	{"a state given or returned is the caller's to change", withSessions(func(s *fixture) {
		l := s.accept("x")
		given := []byte("state")
		s.setState(l, given)
		given[0] = '!'
		got, err := s.main.In(s.store).SessionState(s.Context(), l)
		s.wantCode("state", err, "")
		got[1] = '!'
		s.wantState("state", l, []byte("state"))
	})},
	{"sessions are listed by key, in pages", withSessions(func(s *fixture) {
		for _, session := range []string{"b", "a", "C", "é", "a", "ab"} {
			s.sendIn(session, "x")
		}
		s.wantSessions("all", time.Time{}, "", 9, "a", "ab", "b", "C", "é")
		s.wantSessions("first page", time.Time{}, "", 2, "a", "ab")
		s.wantSessions("second page", time.Time{}, "ab", 2, "b", "C")
		s.wantSessions("after one that is not there", time.Time{}, "bb", 1, "C")
		s.wantSessions("after the last", time.Time{}, "é", 9)
		s.wantSessions("no room", time.Time{}, "", 0)
	})},
	{"sessions are described", withSessions(func(s *fixture) {
		s.sendIn("Busy", "a", "b", "c", "d")
		l := s.accept("busy")
		held := s.lockOneIn(l)
		s.deferIn(l, text("e"))
		again := s.lockOneIn(l)
		s.settle(again, core.Defer)
		s.lockDeferredIn(l, again.SequenceNumber)
		s.setState(l, []byte("state"))
		empty := s.accept("")
		s.setState(empty, []byte{})
		s.release(empty)
		s.sendIn("busyness", "x")
		s.send(text("y", in("scheduled"), s.after(time.Hour)))
		ids := []string{"busy", "", "busyness", "scheduled", "BUSY", "none"}
		want := []core.SessionInfo{
			{ID: "busy", Available: 2, Locked: 2, Deferred: 1, LockedUntil: l.Until, HasState: true, StateBytes: 5, State: []byte("state")},
			{ID: "", HasState: true, State: []byte{}},
			{ID: "busyness", Available: 1},
			{ID: "scheduled"},
			{ID: "BUSY", Available: 2, Locked: 2, Deferred: 1, LockedUntil: l.Until, HasState: true, StateBytes: 5, State: []byte("state")},
			{ID: "none"},
		}
		s.wantDescribed("with their states", true, ids, want)
		for i := range want {
			want[i].State = nil
		}
		s.wantDescribed("without", false, ids, want)
		s.clock.Advance(time.Hour)
		s.wantDescribed("when the lock has ended", false, []string{"busy", "scheduled"}, []core.SessionInfo{
			{ID: "busy", Available: 3, Deferred: 2, HasState: true, StateBytes: 5}, {ID: "scheduled", Available: 1},
		})
		_ = held
	})},
	{"sessions are listed that have messages or state", withSessions(func(s *fixture) {
		l := s.accept("deferred")
		s.deferIn(l, text("a"))
		s.release(l)
		s.sendIn("locked", "b")
		s.lockOneIn(s.accept("locked"))
		l = s.accept("state")
		s.setState(l, []byte("x"))
		s.release(l)
		s.accept("held")
		s.send(text("c", in("scheduled"), s.after(time.Minute)), text("d", in("expiring"), ttl(time.Second)))
		s.sendIn("completed", "e")
		s.settle(s.lockOneIn(s.accept("completed")), core.Complete)
		s.sendIn("dead", "f")
		s.settle(s.lockOneIn(s.accept("dead")), core.DeadLetterOutcome)
		s.wantSessions("now", time.Time{}, "", 99, "deferred", "expiring", "locked", "state")
		s.clock.Advance(time.Minute)
		s.wantSessions("later", time.Time{}, "", 99, "deferred", "locked", "scheduled", "state")
		l = s.accept("state")
		s.setState(l, nil)
		s.wantSessions("cleared", time.Time{}, "", 99, "deferred", "locked", "scheduled")
	})},
	{"sessions are listed whose state was set later than an instant", withSessions(func(s *fixture) {
		start := s.clock.Now()
		s.sendIn("no state", "a")
		for _, session := range []string{"x", "y", "z"} {
			s.clock.Advance(time.Second)
			l := s.accept(session)
			s.setState(l, []byte("state"))
			s.release(l)
		}
		s.wantSessions("since the beginning", start, "", 9, "x", "y", "z")
		s.wantSessions("in pages", start, "x", 1, "y")
		s.wantSessions("since the first", start.Add(time.Second), "", 9, "y", "z")
		s.wantSessions("since just before the second", start.Add(2*time.Second-time.Millisecond), "", 9, "y", "z")
		s.wantSessions("since the last", start.Add(3*time.Second), "", 9)
		s.clock.Advance(time.Second)
		s.setState(s.accept("x"), []byte("again"))
		s.setState(s.accept("z"), nil)
		s.wantSessions("since the last", start.Add(3*time.Second), "", 9, "x")
	})},
}

var sessionDeferStories = []story{
	{"who holds a session can have its deferred messages", withSessions(func(s *fixture) {
		l := s.accept("x")
		a, b := s.deferIn(l, text("a")), s.deferIn(l, text("b"))
		s.wantBodies("normal flow", s.lockIn(l, 9))
		ds := s.lockDeferredIn(l, b, a)
		s.wantBodies("deferred", ds, "b", "a")
		for _, d := range ds {
			s.wantTime("locked until", d.LockedUntil, l.Until)
			want(s, "nonce", d.LockToken.Nonce(), l.Nonce)
			want(s, "state", d.State, core.Deferred)
		}
		s.settle(ds[0], core.Complete)
		s.settle(ds[1], core.Abandon)
		want(s, "delivery count", s.lockDeferredIn(l, a)[0].DeliveryCount, 2)
		s.wantBodies("nothing", s.lockDeferredIn(l))
	})},
	{"messages of a session are locked by number, those that are available", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c", "d")
		s.sendIn("y", "e")
		s.send(text("f", in("x"), s.after(time.Hour)))
		l := s.accept("x")
		s.settle(s.lockOneIn(l), core.Abandon)
		got := s.lockNumbersIn(l, number(4), number(5), number(6), number(9), number(1), core.SequenceNumber(0, 2), number(4))
		s.wantBodies("messages", got, "d", "a")
		want(s, "delivery count", got[1].DeliveryCount, 1)
		for _, d := range got {
			s.wantTime("locked until", d.LockedUntil, l.Until)
			want(s, "nonce", d.LockToken.Nonce(), l.Nonce)
			want(s, "state", d.State, core.Active)
		}
		s.wantBodies("nothing is locked twice", s.lockNumbersIn(l, number(1)))
		s.settle(got[0], core.DeadLetterOutcome)
		s.settle(got[1], core.Release)
		s.wantBodies("a released message, removed", s.lockNumbersIn(l, number(1)), "a")
		s.settle(got[1], core.Complete)
		s.release(l)
		s.wantStats("free again", s.main, core.Stats{Ready: 3, Scheduled: 1})
		l = s.accept("x")
		ds := s.lockIn(l, 9)
		s.wantBodies("the others, in order", ds, "b", "c")
		for _, d := range ds {
			want(s, "delivery count", d.DeliveryCount, 0)
		}
		s.wantBodies("the dead letter", s.lockAt(s.dead(), 9), "d")
	})},
	{"a lock by number ends with its session's", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c")
		l := s.accept("x")
		s.lockNumbersIn(l, number(3))
		s.release(l)
		l = s.acceptNext("x")
		d := s.lockNumbersIn(l, number(2))[0]
		s.clock.Advance(sessionEnd)
		s.wantLost("expired", l, d.LockToken, number(1))
		ds := s.lockIn(s.acceptNext("x"), 9)
		s.wantBodies("all, in order", ds, "a", "b", "c")
		for i, count := range []int{0, 1, 0} {
			want(s, "delivery count", int(ds[i].DeliveryCount), count)
		}
	})},
	{"messages of a session are not locked by number without its lock", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l := s.accept("x")
		s.release(l)
		for what, lock := range map[string]*core.SessionLock{"none": nil, "one that has ended": &l, "another partition's": {ID: "x", Index: 0, Nonce: l.Nonce}} {
			_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{number(1)}, Session: lock})
			s.wantCode(what, err, core.SessionLockLost)
		}
		s.wantBodies("it is there", s.lockIn(s.acceptNext("x"), 9), "a")
	})},
	{"a deferred message of another session is not found", withSessions(func(s *fixture) {
		x, y := s.accept("x"), s.accept("y")
		a, b := s.deferIn(x, text("a", ttl(time.Second))), s.deferIn(y, text("b"))
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{b, a}, Deferred: true, Session: &y})
		s.wantCode("lock", err, core.MessageNotFound)
		s.clock.Advance(time.Second)
		_, _, err = s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{b, a}, Deferred: true, Session: &y})
		s.wantCode("lock what has expired", err, core.MessageNotFound)
		s.wantStats("nothing expired", s.main, core.Stats{Deferred: 2})
		_, _, err = s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{a}, Deferred: true, Session: &x})
		s.wantCode("lock what has expired", err, core.MessageNotFound)
		s.wantStats("expired", s.main, core.Stats{Deferred: 1})
		s.wantBodies("the other", s.lockDeferredIn(y, b), "b")
	})},
	{"deferred messages of a session whose lock is lost do not expire", withSessions(func(s *fixture) {
		l := s.accept("x")
		n := s.deferIn(l, text("a", ttl(time.Second)))
		s.release(l)
		s.clock.Advance(time.Second)
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{n}, Deferred: true, Session: &l})
		s.wantCode("lock", err, core.SessionLockLost)
		_, _, err = s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: nil, Deferred: true, Session: &l})
		s.wantCode("lock nothing", err, core.SessionLockLost)
		s.wantStats("still there", s.main, core.Stats{Deferred: 1})
	})},
	{"deferred messages stay deferred when the session's lock ends", withSessions(func(s *fixture) {
		l := s.accept("x")
		n := s.deferIn(l, text("a"))
		s.lockDeferredIn(l, n)
		s.release(l)
		l = s.accept("x")
		s.wantBodies("normal flow", s.lockIn(l, 9))
		d := s.lockDeferredIn(l, n)[0]
		want(s, "count after release", d.DeliveryCount, 1)
		s.clock.Advance(sessionEnd)
		s.wantLost("expired", l, d.LockToken, n)
		l = s.accept("x")
		s.wantBodies("normal flow", s.lockIn(l, 9))
		want(s, "count after expiry", s.lockDeferredIn(l, n)[0].DeliveryCount, 2)
	})},
	{"a deferred message that a session's end fails too often is dead-lettered", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 2
		l := s.accept("x")
		n := s.deferIn(l, text("a"))
		s.lockDeferredIn(l, n)
		s.clock.Advance(sessionEnd)
		s.wantStats("main", s.main, core.Stats{})
		s.wantBodies("dead letters", s.lockAt(s.dead(), 9), "a")
	})},
}
