package storetest

import (
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Tests of the spelling of session ids, and of the empty id.
var sessionIDStories = []story{
	{"ids that differ in case only are those of one session", withSessions(func(s *fixture) {
		s.sendIn("Some-É", "a")
		s.sendIn("other", "b")
		s.sendIn("SOME-é", "c")
		s.wantSessionCounts("waiting", s.main, 0, 2)
		l := s.accept("some-é")
		want(s, "id of the lock", l.ID, "some-é")
		_, _, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: "SOME-É"})
		s.wantCode("accept under another spelling", err, core.SessionLocked)
		ds := s.lockIn(l, 9)
		s.wantBodies("messages", ds, "a", "c")
		want(s, "id of the first", ds[0].SessionID, "Some-É")
		want(s, "id of the second", ds[1].SessionID, "SOME-é")
		l.ID = "SOME-É" // only the nonce proves the lock
		s.setState(l, []byte("state"))
		until, err := s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.wantTime("renewed until", until, s.clock.Now().Add(lockDuration))
		s.settle(ds[0], core.Defer)
		s.settle(ds[1], core.Abandon)
		s.wantBodies("deferred", s.lockDeferredIn(l, ds[0].SequenceNumber), "a")
		s.release(l)
		l = s.accept("sOmE-é")
		s.wantState("under another spelling", l, []byte("state"))
		s.wantBodies("abandoned", s.lockIn(l, 9), "c")
	})},
	{"the next session has the id that its first available message has", withSessions(func(s *fixture) {
		s.sendIn("Aa", "1")
		s.sendIn("aA", "2")
		s.sendIn("aa", "3")
		l := s.acceptNext("Aa")
		s.settle(s.lockOneIn(l), core.Complete)
		s.release(l)
		l = s.acceptNext("aA")
		s.settle(s.lockOneIn(l), core.Defer)
		s.release(l)
		s.acceptNext("aa")
		s.acceptNext("")
	})},
	{"a message that becomes due or comes back belongs to its session, whatever its spelling", withSessions(func(s *fixture) {
		s.send(text("a", in("X"), s.after(time.Second)), text("b", in("X"), ttl(time.Minute)))
		l := s.accept("x")
		s.wantBodies("now", s.lockIn(l, 9), "b")
		s.clock.Advance(time.Second)
		ds := s.lockIn(l, 9)
		s.wantBodies("when it is due", ds, "a")
		want(s, "id", ds[0].SessionID, "X")
		s.clock.Advance(sessionEnd)
		s.wantBodies("when the lock has ended", s.lockIn(s.accept("x"), 9), "b", "a")
	})},
	{"a session is listed with the id under which its state was set, else that of its oldest message", withSessions(func(s *fixture) {
		start := s.clock.Now().Add(-time.Millisecond)
		s.sendIn("Ab", "1")
		s.sendIn("AB", "2")
		s.wantSessions("with messages", time.Time{}, "", 9, "Ab")
		l := s.accept("aB")
		ds := s.lockIn(l, 9)
		s.wantSessions("under lock", time.Time{}, "", 9, "Ab")
		s.settle(ds[1], core.Abandon)
		s.wantSessions("one of them under lock", time.Time{}, "", 9, "Ab")
		s.settle(ds[0], core.Defer)
		s.wantSessions("one of them deferred", time.Time{}, "", 9, "Ab")
		s.setState(l, []byte("x"))
		s.wantSessions("with state", time.Time{}, "", 9, "aB")
		s.wantSessions("with state set lately", start, "", 9, "aB")
		l.ID = "ab"
		s.setState(l, []byte("x"))
		s.wantSessions("with state set again", time.Time{}, "", 9, "ab")
		s.wantSessions("set again lately", start, "", 9, "ab")
		s.setState(l, nil)
		s.wantSessions("without state", time.Time{}, "", 9, "Ab")
	})},
	{"a full partition keeps no state that is larger than the present one", withSessions(func(s *fixture) {
		s.sendIn("x", "a")
		l, full := s.accept("x"), s.main
		full.MaxBytes = 1
		set := func(state []byte, wanted core.Code) {
			s.wantCode(fmt.Sprintf("set state %q", state), full.In(s.store).SetSessionState(s.Context(), l, state), wanted)
		}
		commit := func(state []byte) core.Work { return core.Work{States: []core.SessionState{{Lock: l, State: state}}} }
		set([]byte("x"), core.QuotaExceeded)
		s.refuseCommit(full, commit([]byte("x")), core.QuotaExceeded)
		s.wantState("refused", l, nil)
		s.setState(l, []byte("12345678"))
		set([]byte("123456789"), core.QuotaExceeded)
		s.refuseCommit(full, commit([]byte("123456789")), core.QuotaExceeded)
		s.wantState("refused", l, []byte("12345678"))
		set([]byte("abcdefgh"), "")
		s.commit(full, commit([]byte("abcdefg")))
		s.wantState("smaller", l, []byte("abcdefg"))
		set(nil, "")
		s.commit(full, commit(nil))
		set([]byte("x"), core.QuotaExceeded)
	})},
	{"the empty id is that of a session like others", withSessions(func(s *fixture) {
		start := s.clock.Now().Add(-time.Millisecond)
		s.sendIn("x", "a")
		s.sendIn("", "b", "c")
		s.send(text("d", in(""), s.after(time.Second)))
		s.wantSessionCounts("waiting", s.main, 0, 2)
		s.wantSessions("with messages", time.Time{}, "", 9, "", "x")
		s.wantSessions("the first", time.Time{}, "", 1, "")
		s.wantSessions("those after it", time.Time{}, core.KeyOfSession(""), 9, "x")
		s.acceptNext("x")
		l, ok, _, err := s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{Next: true})
		if err != nil || !ok || l.ID != "" {
			s.Fatalf("accept the next session: got %q, %t, %v, want the one with the empty id", l.ID, ok, err)
		}
		_, _, _, err = s.main.In(s.store).AcceptSession(s.Context(), core.SessionRequest{ID: ""})
		s.wantCode("accept what is held", err, core.SessionLocked)
		s.wantBodies("messages", s.lockIn(l, 1), "b")
		s.release(l)
		l = s.accept("")
		ds := s.lockIn(l, 9)
		s.wantBodies("after the release", ds, "b", "c")
		want(s, "whether they have a session", ds[0].HasSession(), true)
		s.settle(ds[0], core.Defer)
		s.settle(ds[1], core.Complete)
		s.clock.Advance(time.Second)
		s.wantBodies("when it is due", s.lockIn(l, 9), "d")
		s.wantBodies("deferred", s.lockDeferredIn(l, ds[0].SequenceNumber), "b")
		s.setState(l, []byte("state"))
		s.wantState("set", l, []byte("state"))
		s.wantSessions("with state", start, "", 9, "")
		until, err := s.main.In(s.store).RenewSession(s.Context(), l)
		s.wantCode("renew", err, "")
		s.clock.Advance(sessionEnd)
		s.wantLost("at "+until.String(), l, core.LockToken{}, ds[0].SequenceNumber)
	})},
	{"the bell rings for the holder of the session with the empty id", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		x, l := s.accept("x"), s.accept("")
		listen("append", core.KeyOfSession(""), func() {
			s.wantBodies("arming x", s.lockIn(x, 9))
			s.wantBodies("arming", s.lockIn(l, 9))
			s.acceptNext("")
		}, func() { s.sendIn("", "a") })
	})},
}
