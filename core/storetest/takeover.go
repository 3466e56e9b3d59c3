package storetest

import (
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// acceptShared locks a session so that it can be taken over.
func (s *fixture) acceptShared(session string) core.SessionLock {
	s.Helper()
	l, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: session, Mode: core.NonExclusive})
	if err != nil {
		s.Fatalf("accept session %q: %v", session, err)
	}
	return l
}

func (s *fixture) takeOver(session string, token core.LockToken) core.SessionLock {
	s.Helper()
	l, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: session, TakeOver: token})
	if err != nil {
		s.Fatalf("take over session %q: %v", session, err)
	}
	return l
}

func (s *fixture) settleUnder(l core.SessionLock, token core.LockToken, o core.Outcome) error {
	s.Helper()
	return s.main.In(s.store).Settle(s.Context(), []core.Settlement{{Token: token, Outcome: o, Session: &l}})[0]
}

var takeOverStories = []story{
	{"a session that is taken over keeps its token, its locks and its subject", withSessions(func(s *fixture) {
		s.main.MaxDeliveryCount = 3
		s.sendIn("x", "a", "b", "c", "d", "e")
		first := s.acceptShared("x")
		ds := s.lockIn(first, 3)
		s.settle(ds[0], core.Defer)
		deferred := s.lockDeferredIn(first, ds[0].SequenceNumber)[0]
		s.clock.Advance(time.Second)
		second := s.takeOver("X", first.Token())
		want(s, "id", second.ID, "X")
		want(s, "token", second.Token(), first.Token())
		s.wantTime("until", second.Until, s.clock.Now().Add(lockDuration))
		s.wantStats("taken over", s.main, core.Stats{Ready: 2, Locked: 2, Deferred: 1})
		s.wantSessionCounts("taken over", s.main, 1, 0)

		more := s.lockIn(second, 1)
		s.wantBodies("the next message", more, "d")
		want(s, "nonce", more[0].LockToken.Nonce(), ds[1].LockToken.Nonce())
		s.wantCode("complete what the first holder was given", s.settleUnder(second, ds[1].LockToken, core.Complete), "")
		s.wantCode("abandon what the first holder was given", s.settleUnder(second, ds[2].LockToken, core.Abandon), "")
		s.wantCode("complete what the first holder had deferred", s.settleUnder(second, deferred.LockToken, core.Complete), "")
		ds = s.lockIn(second, 9)
		s.wantBodies("in their order", ds, "c", "e")
		want(s, "count of the abandoned", ds[0].DeliveryCount, 1)
		s.clock.Advance(sessionEnd - time.Millisecond)
		until, err := s.tryRenew(s.main, ds[0].LockToken)
		s.wantCode("renew a message", err, "")
		s.wantTime("a message renewed", until, second.Until)
		s.release(second)
		s.wantBodies("given back", s.lockIn(s.accept("x"), 9), "c", "d", "e")
	})},
	{"the former holder of a session that was taken over has lost it", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b")
		first := s.acceptShared("x")
		d := s.lockOneIn(first)
		second := s.takeOver("x", first.Token())
		for o := core.Complete; o <= core.Release; o++ {
			s.wantCode("settle: "+o.String(), s.settleUnder(first, d.LockToken, o), core.SessionLockLost)
		}
		s.wantLost("the first", first, core.LockToken{}, 0)
		third := s.takeOver("x", second.Token())
		s.wantLost("the second", second, core.LockToken{}, 0)
		s.wantLost("the first, again", first, core.LockToken{}, 0)
		s.wantCode("settle", s.settleUnder(third, d.LockToken, core.Complete), "")
		s.wantBodies("rest", s.lockIn(third, 9), "b")
	})},
	{"a session is taken over with its own token only", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		s.sendIn("y", "b")
		x, y, z := s.acceptShared("x"), s.acceptShared("y"), s.accept("z")
		want(s, "token of an exclusive lock", z.Token(), core.LockToken{})
		derived := z
		derived.Mode = core.NonExclusive
		d := s.lockOneIn(x)
		refuse := func(what, session string, token core.LockToken, code core.Code) {
			s.Helper()
			_, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: session, TakeOver: token})
			s.wantCode(what, err, code)
		}
		refuse("with that of another session", "x", y.Token(), core.SessionLocked)
		refuse("with that of a message", "x", d.LockToken, core.SessionLocked)
		refuse("with none", "x", core.LockToken{}, core.SessionLocked)
		refuse("an exclusive lock", "z", derived.Token(), core.SessionLocked)
		refuse("an exclusive lock with none", "z", core.LockToken{}, core.SessionLocked)
		refuse("what nobody holds", "unknown", x.Token(), core.SessionLockLost)
		_, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "x", Mode: core.NonExclusive})
		s.wantCode("accept what can be taken over", err, core.SessionLocked)
		s.wantCode("settle under the lock of another session", s.settleUnder(y, d.LockToken, core.Complete), core.LockLost)
		s.wantCode("settle", s.settleUnder(x, d.LockToken, core.Complete), "")
		s.release(y)
		refuse("what was given back", "y", y.Token(), core.SessionLockLost)
		again := s.acceptShared("y")
		refuse("with the token of before", "y", y.Token(), core.SessionLocked)
		s.clock.Advance(sessionEnd)
		refuse("what has expired", "y", again.Token(), core.SessionLockLost)
		s.wantBodies("left", s.lockIn(s.acceptNext("y"), 9), "b")
	})},
	{"a next session can be accepted so that it can be taken over", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l, ok, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{Next: true, Mode: core.NonExclusive})
		if err != nil || !ok || l.ID != "x" {
			s.Fatalf("got %q, %t, %v", l.ID, ok, err)
		}
		s.wantBodies("messages", s.lockIn(s.takeOver("x", l.Token()), 9), "a")
	})},
	{"a session keeps its state when it is taken over", withSessions(func(s *fixture) {
		first := s.acceptShared("x")
		s.setState(first, []byte("state"))
		second := s.takeOver("x", first.Token())
		s.wantState("taken over", second, []byte("state"))
	})},
	{"the former holder is rung when its session is taken over", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		first := s.acceptShared("x")
		listen("take over, nobody waits", "x", func() {}, func() { first = s.takeOver("x", first.Token()) })
		listen("take over", "x", func() { s.wantBodies("arming", s.lockIn(first, 9)) }, func() { s.takeOver("x", first.Token()) })
	})},
	{"a settlement under a session that is held tells a lost message from a lost session", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b", "c")
		s.sendIn("y", "d")
		l, other := s.accept("x"), s.accept("y")
		ds := s.lockIn(l, 9)
		elsewhere := core.NewLockToken(0, 1, l.Nonce)
		got := s.main.In(s.store).Settle(s.Context(), []core.Settlement{
			{Token: ds[0].LockToken, Session: &l},
			{Token: ds[0].LockToken, Session: &l},
			{Token: ds[0].LockToken},
			{Token: s.lockOneIn(other).LockToken, Outcome: core.Release},
			{Token: elsewhere, Session: &l},
			{Token: elsewhere},
			{Token: ds[1].LockToken, Session: &core.SessionLock{ID: "x", Index: 0, Nonce: l.Nonce}},
			{Token: ds[1].LockToken, Session: &l},
		})
		var codes []core.Code
		for _, err := range got {
			codes = append(codes, core.CodeOf(err))
		}
		if wanted := []core.Code{"", core.LockLost, core.SessionLockLost, "", core.LockLost, core.SessionLockLost, core.SessionLockLost, ""}; !slices.Equal(codes, wanted) {
			s.Fatalf("got %q, want %q", codes, wanted)
		}
		_, err := s.main.In(s.store).Commit(s.Context(), core.Work{Settlements: []core.Settlement{{Token: ds[1].LockToken, Session: &l}}})
		s.wantCode("commit what is settled", err, core.LockLost)
		_, err = s.main.In(s.store).Commit(s.Context(), core.Work{Settlements: []core.Settlement{{Token: ds[2].LockToken, Session: &l}}})
		s.wantCode("commit", err, "")
		s.clock.Advance(sessionEnd)
		s.wantCode("settle under a lock that has ended", s.settleUnder(l, ds[2].LockToken, core.Complete), core.SessionLockLost)
		_, err = s.main.In(s.store).Commit(s.Context(), core.Work{Settlements: []core.Settlement{{Token: ds[2].LockToken, Session: &l}}})
		s.wantCode("commit under a lock that has ended", err, core.SessionLockLost)
	})},
	{"where sessions are not required the session of a settlement says nothing", func(s *fixture) {
		s.sendIn("x", "a")
		d := s.lock(1)[0]
		s.wantCode("settle", s.settleUnder(core.SessionLock{ID: "x"}, d.LockToken, core.Complete), "")
		s.wantCode("settle again", s.settleUnder(core.SessionLock{ID: "x"}, d.LockToken, core.Complete), core.LockLost)
	}},
}

// takeOver takes a session over, in most cases with its token.
func (p *player) takeOver(pl *subject, l pair[core.SessionLock]) {
	p.Helper()
	tokenA, tokenB := l.a.Token(), l.b.Token()
	if p.pick(8) == 0 {
		l.a.Mode, l.b.Mode = core.NonExclusive, core.NonExclusive
		tokenA, tokenB = l.a.Token(), l.b.Token()
	}
	id := l.a.ID
	if p.pick(8) == 0 {
		id = p.session()
	}
	a, _, _, errA := pl.Partition.In(p.a).AcceptSession(p.Context(), core.SessionRequest{ID: id, TakeOver: tokenA})
	b, _, _, errB := pl.Partition.In(p.b).AcceptSession(p.Context(), core.SessionRequest{ID: id, TakeOver: tokenB})
	p.tell("%stake over %s: %v", pl.Subscription, id, errA)
	p.sameCode("take over session", errA, errB)
	if errA == nil {
		p.accepted(pl, a, b)
	}
}
