package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/redisstore"
)

func TestSessionsAreLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	h := &sessionHistory{history: newHistory(t, true)}
	h.play(h.call, func(s *redisstore.Store) {
		h.count(0, s)
		h.list(0, s)
		h.peek(s)
		// Each session that nobody holds, by its first message.
		for h.accept(0, s, accepting{next: true}) {
		}
	})
}

// sessionHistory is one of a partition with sessions.
type sessionHistory struct {
	*history
	locks  bag[core.SessionLock]
	tokens bag[core.LockToken]
}

// anySession is one of a few. A session may be held for ever by a lock whose
// answer was lost, so there are new ones after a few faults.
func (h *sessionHistory) anySession(random *rand.Rand) string {
	return fmt.Sprintf("%c%d", 'a'+rune(random.IntN(4)), h.faults.Load()/3)
}

func (h *sessionHistory) call(client int, s *redisstore.Store, random *rand.Rand) {
	switch choice := random.IntN(100); {
	case choice < 20 && h.stored.Load() < 30+5*h.faults.Load():
		h.append(client, s, 2, []string{h.anySession(random), h.anySession(random)})
	case choice < 28:
		h.accept(client, s, accepting{got: h.anySession(random)})
	case choice < 40:
		h.accept(client, s, accepting{next: true})
	case choice < 66:
		if l, ok := h.locks.pick(random, true); ok {
			h.take(client, s, l, 1+random.IntN(3))
		}
	case choice < 82:
		if token, ok := h.tokens.pick(random, random.IntN(10) == 0); ok && !h.settle(client, s, token, anyOutcome(random)) {
			h.tokens.put(token)
		}
	case choice < 88:
		if l, ok := h.locks.pick(random, random.IntN(10) == 0); ok && !h.release(client, s, l) {
			h.locks.put(l)
		}
	case choice < 90:
		if token, ok := h.tokens.pick(random, true); ok {
			h.renew(client, s, token)
		}
	case choice < 96:
		if l, ok := h.locks.pick(random, true); ok {
			h.keep(client, s, l, random)
		}
	case choice < 98:
		h.list(client, s)
	default:
		h.count(client, s)
	}
}

// accept locks a session, and reports whether it did.
func (h *sessionHistory) accept(client int, s *redisstore.Store, a accepting) bool {
	var l core.SessionLock
	var err error
	ok, call := true, h.now()
	if a.next {
		l, ok, _, err = s.AcceptNextSession(h.Context(), h.p)
	} else {
		l, err = s.AcceptSession(h.Context(), h.p, a.got)
	}
	what, reached := answerOf(err)
	switch {
	case !reached:
		rest()
		return false
	case what == unknown:
		a.nonce = h.fake()
	case what == done && !ok:
		what = refused
	case what == done:
		a.got, a.nonce = l.ID, l.Nonce
		h.locks.put(l)
	}
	a.answer = what
	h.note(client, call, a, what)
	return what == done
}

// take claims messages of a session.
func (h *sessionHistory) take(client int, s *redisstore.Store, l core.SessionLock, limit int) {
	call := h.now()
	ds, _, err := s.LockInSession(h.Context(), h.p, l, limit)
	a, ok := answerOf(err)
	if !ok {
		rest()
		return
	}
	for _, d := range ds {
		if d.LockToken.Nonce() != l.Nonce || d.SessionID != l.ID {
			h.Errorf("a message of session %q came with the lock of session %q", d.SessionID, l.ID)
		}
		h.tokens.put(d.LockToken)
	}
	h.note(client, call, taking{under(l, a), limit, deliveredOf(ds)}, a)
}

// under is a call under a session's lock.
func under(l core.SessionLock, a answer) inSession { return inSession{l.ID, l.Nonce, a} }

// release ends a session's lock and reports whether it is known to have ended.
func (h *sessionHistory) release(client int, s *redisstore.Store, l core.SessionLock) bool {
	call := h.now()
	a, ok := answerOf(s.ReleaseSession(h.Context(), h.p, l))
	if !ok {
		rest()
		return false
	}
	h.note(client, call, releasing{under(l, a)}, a)
	return a != unknown
}

// keep renews a session's lock, or sets or reads its state.
func (h *sessionHistory) keep(client int, s *redisstore.Store, l core.SessionLock, random *rand.Rand) {
	call := h.now()
	switch random.IntN(3) {
	case 0:
		until, err := s.RenewSession(h.Context(), h.p, l)
		a, ok := answerOf(err)
		if !ok || a == unknown {
			return
		}
		if a == done && time.Until(until) < h.p.LockDuration/2 {
			h.Errorf("a lock of %v was renewed until %v", h.p.LockDuration, until)
		}
		h.note(client, call, extending{under(l, a)}, a)
	case 1:
		state := fmt.Sprint("state ", h.bodies.Add(1))
		if random.IntN(3) == 0 {
			state = ""
		}
		var kept []byte
		if state != "" {
			kept = []byte(state)
		}
		if a, ok := answerOf(s.SetSessionState(h.Context(), h.p, l, kept)); ok {
			h.note(client, call, remembering{under(l, a), state}, a)
		}
	default:
		state, err := s.SessionState(h.Context(), h.p, l)
		if a, ok := answerOf(err); ok && a != unknown {
			h.note(client, call, recalling{under(l, a), string(state)}, a)
		}
	}
}

// list lists the sessions.
func (h *sessionHistory) list(client int, s *redisstore.Store) {
	call := h.now()
	if ids, err := s.ListSessions(h.Context(), h.p, time.Time{}, "", 1000); err == nil {
		h.note(client, call, listing{strings.Join(ids, " ")}, done)
	}
}
