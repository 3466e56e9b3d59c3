package linear

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func Sessions(t *testing.T, s Subject) {
	play(t, s, func(p *player) bool {
		h := &sessionHistory{history: p.history(true)}
		h.first, h.lose = []string{h.anySession(rand.New(rand.NewPCG(0, 0)))}, h.loseCall
		return h.play(h.call, h.finish)
	})
}

type sessionHistory struct {
	*history
	locks  bag[core.SessionLock]
	tokens bag[core.LockToken]
}

// linearSessions are many, because a session stays locked if the answer of AcceptSession is lost.
var linearSessions = []string{"", "a", "b", "c", "d", "e", "f", "g"}

func (h *sessionHistory) anySession(random *rand.Rand) string {
	return linearSessions[random.IntN(len(linearSessions))]
}

// anySpelling returns id unchanged or in upper case.
func anySpelling(id string) string {
	if rand.IntN(2) == 0 {
		return strings.ToUpper(id)
	}
	return id
}

func (h *sessionHistory) finish(s core.Store) {
	h.count(0, s)
	h.list(0, s)
	h.peek(s)
	h.locks = bag[core.SessionLock]{}
	for _, id := range linearSessions {
		h.accept(0, s, accepting{got: id})
	}
	for _, l := range h.locks.items {
		h.take(0, s, l, 1000)
	}
	h.count(0, s)
}

func (h *sessionHistory) call(client int, s core.Store, random *rand.Rand) {
	switch choice := random.IntN(100); {
	case choice < 20 && h.stored.Load() < 20+4*h.faults.Load():
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

func (h *sessionHistory) loseCall(s core.Store, random *rand.Rand) {
	l, ok := h.locks.pick(random, true)
	switch choice := random.IntN(3); {
	case !ok || choice == 0:
		h.accept(nobody, s, accepting{next: random.IntN(2) == 0, got: h.anySession(random)})
	case choice == 1:
		h.take(nobody, s, l, 2)
	default:
		h.release(nobody, s, l)
	}
}

func (h *sessionHistory) accept(client int, s core.Store, a accepting) bool {
	var l core.SessionLock
	var err error
	ok, from := true, h.now()
	if a.next {
		l, ok, _, err = h.p.In(s).AcceptSession(h.Context(), core.SessionRequest{Next: true})
	} else {
		l, _, _, err = h.p.In(s).AcceptSession(h.Context(), core.SessionRequest{ID: anySpelling(a.got)})
	}
	a.answer = answerOf(err)
	switch {
	case a.answer >= unsure:
		a.nonce = h.fake()
	case a.answer == done && !ok:
		a.answer = refused
	case a.answer == done:
		a.got, a.nonce = strings.ToLower(l.ID), l.Nonce
		h.locks.put(l)
	}
	h.note(client, from, a, a.answer)
	return a.answer == done
}

func (h *sessionHistory) take(client int, s core.Store, l core.SessionLock, limit int) {
	from := h.now()
	ds, _, err := h.p.In(s).Lock(h.Context(), core.LockRequest{Most: core.Most{Messages: limit}, Session: &l})
	for _, d := range ds {
		if d.LockToken.Nonce() != l.Nonce || !strings.EqualFold(d.SessionID, l.ID) {
			h.Errorf("received a message of session %q with the lock of session %q", d.SessionID, l.ID)
		}
		h.tokens.put(d.LockToken)
	}
	a := answerOf(err)
	h.note(client, from, taking{under(l, a), limit, deliveredOf(ds), h.fake()}, a)
}

func under(l core.SessionLock, a answer) inSession {
	return inSession{strings.ToLower(l.ID), l.Nonce, a}
}

// release reports whether the lock is known to have ended.
func (h *sessionHistory) release(client int, s core.Store, l core.SessionLock) bool {
	from := h.now()
	a := answerOf(h.p.In(s).ReleaseSession(h.Context(), l))
	h.note(client, from, releasing{under(l, a)}, a)
	return a < unsure
}

func (h *sessionHistory) keep(client int, s core.Store, l core.SessionLock, random *rand.Rand) {
	from := h.now()
	switch random.IntN(3) {
	case 0:
		_, err := h.p.In(s).RenewSession(h.Context(), l)
		a := answerOf(err)
		h.note(client, from, extending{under(l, a)}, a)
	case 1:
		state := fmt.Sprint("state ", h.bodies.Add(1))
		a := answerOf(h.p.In(s).SetSessionState(h.Context(), l, []byte(state)))
		h.note(client, from, withHistory{under(l, a), state}, a)
	default:
		state, err := h.p.In(s).SessionState(h.Context(), l)
		a := answerOf(err)
		h.note(client, from, recalling{under(l, a), string(state)}, a)
	}
}

func (h *sessionHistory) list(client int, s core.Store) {
	from := h.now()
	ids, err := h.p.In(s).ListSessions(h.Context(), time.Time{}, "", 1000)
	if answerOf(err) == done {
		h.note(client, from, listing{strings.ToLower(strings.Join(ids, " "))}, done)
	}
}
