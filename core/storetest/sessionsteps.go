package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *player) sessionStep(pl *subject) {
	p.Helper()
	switch n := p.pick(18); {
	case n < 2:
		p.accept(pl, p.session())
	case n < 5:
		p.acceptNext(pl)
	case n >= 16:
		p.takeOver(pl, p.sessionLock(pl))
	case n < 10:
		p.lockIn(pl, p.sessionLock(pl), p.most(4))
	case n < 11:
		p.renewSession(pl, p.sessionLock(pl))
	case n < 12:
		p.releaseSession(pl, p.sessionLock(pl))
	case n < 14:
		p.setState(pl, p.sessionLock(pl), oneOf(p, nil, nil, []byte{}, []byte("s"), fmt.Appendf(nil, "s%d", len(p.story))))
	case n < 15:
		p.state(pl, p.sessionLock(pl))
	default:
		since := time.Time{}
		if p.pick(2) == 0 {
			since = p.clock.Now().Add(-oneOf(p, 0, time.Millisecond, time.Second, 10*time.Second))
		}
		p.listSessions(pl, since, oneOf[core.SessionKey](p, "", "", core.KeyOfSession(""), "x", "xx", "z"), oneOf(p, 100, 100, 1, 2, 0))
		p.describeSessions(pl)
	}
}

func (p *player) session() string { return oneOf(p, "x", "y", "z", "X", "Y", "") }

func (p *player) sessionMode() core.SessionMode { return oneOf(p, core.Exclusive, core.NonExclusive) }

// sessionLock picks a lock that was given out, or forges one.
func (p *player) sessionLock(pl *subject) pair[core.SessionLock] {
	if len(pl.locks) == 0 || p.pick(16) == 0 {
		forged := core.SessionLock{ID: p.session(), Index: pl.Index, Nonce: 12345}
		return pair[core.SessionLock]{forged, forged}
	}
	return pl.locks[len(pl.locks)-1-p.pick(min(len(pl.locks), 4))]
}

// Most invalid locks are forgotten.
func (p *player) lost(pl *subject, l pair[core.SessionLock], err error) {
	if i := slices.Index(pl.locks, l); i >= 0 && err != nil && p.pick(4) > 0 {
		pl.locks = slices.Delete(pl.locks, i, i+1)
	}
}

func (p *player) accepted(pl *subject, a, b core.SessionLock) {
	p.Helper()
	if a.ID != b.ID || a.Index != b.Index || a.Mode != b.Mode || a.TakeOvers != b.TakeOvers || !a.Until.Equal(b.Until) {
		p.fail("model accepts %+v, engine %+v", a, b)
	}
	pl.locks = append(pl.locks, pair[core.SessionLock]{a, b})
	p.leave(pl.Ref, a.Key())
}

func (p *player) accept(pl *subject, session string) {
	p.Helper()
	m := p.sessionMode()
	a, _, _, errA := pl.Partition.In(p.a).AcceptSession(p.Context(), core.SessionRequest{ID: session, Mode: m})
	b, _, _, errB := pl.Partition.In(p.b).AcceptSession(p.Context(), core.SessionRequest{ID: session, Mode: m})
	p.tell("%saccept %s, mode %d: %v", pl.Subscription, session, m, errA)
	p.sameCode("accept session", errA, errB)
	p.excuse(pl.Ref)
	if errA == nil {
		p.accepted(pl, a, b)
	}
}

func (p *player) acceptNext(pl *subject) bool {
	p.Helper()
	m := p.sessionMode()
	a, okA, nextA, errA := pl.Partition.In(p.a).AcceptSession(p.Context(), core.SessionRequest{Next: true, Mode: m})
	b, okB, nextB, errB := pl.Partition.In(p.b).AcceptSession(p.Context(), core.SessionRequest{Next: true, Mode: m})
	p.tell("%saccept next, mode %d: %s %v", pl.Subscription, m, a.ID, errA)
	p.sameCode("accept the next session", errA, errB)
	p.excuse(pl.Ref)
	switch {
	case okA != okB:
		p.fail("model accepts %q, %t, engine %q, %t", a.ID, okA, b.ID, okB)
	case okA:
		p.accepted(pl, a, b)
	default:
		p.sameNext(nextA, nextB)
		p.arm(pl.Ref, "")
	}
	return okA
}

func (p *player) renewSession(pl *subject, l pair[core.SessionLock]) {
	p.Helper()
	a, errA := pl.Partition.In(p.a).RenewSession(p.Context(), l.a)
	b, errB := pl.Partition.In(p.b).RenewSession(p.Context(), l.b)
	p.tell("%srenew session %s: %v", pl.Subscription, l.a.ID, errA)
	p.sameCode("renew session", errA, errB)
	if !a.Equal(b) {
		p.fail("renew session: model until %v, engine until %v", a, b)
	}
}

func (p *player) releaseSession(pl *subject, l pair[core.SessionLock]) {
	p.Helper()
	a := pl.Partition.In(p.a).ReleaseSession(p.Context(), l.a)
	b := pl.Partition.In(p.b).ReleaseSession(p.Context(), l.b)
	p.tell("%srelease session %s: %v", pl.Subscription, l.a.ID, a)
	p.sameCode("release session", a, b)
	p.lost(pl, l, core.SessionLockLost)
}

func (p *player) lockIn(pl *subject, l pair[core.SessionLock], most core.Most) {
	p.Helper()
	a, nextA, errA := pl.Partition.In(p.a).Lock(p.Context(), core.LockRequest{Most: most, Session: &l.a})
	b, nextB, errB := pl.Partition.In(p.b).Lock(p.Context(), core.LockRequest{Most: most, Session: &l.b})
	p.tell("%slock in %s %d: %s %v", pl.Subscription, l.a.ID, most, brief(a), errA)
	p.sameCode("lock in session", errA, errB)
	p.excuse(pl.Ref)
	p.lost(pl, l, errA)
	p.took(pl.Partition, a, b)
	p.carry(l, a, b)
	if errA == nil && !most.Left(b, nextB, p.b.Now) {
		p.sameNext(nextA, nextB)
		p.arm(pl.Ref, l.a.Key())
	}
}

// carry checks that tokens have the nonce of their session's lock.
func (p *player) carry(l pair[core.SessionLock], a, b []core.Delivery) {
	p.Helper()
	for i := range a {
		if a[i].LockToken.Nonce() != l.a.Nonce || b[i].LockToken.Nonce() != l.b.Nonce {
			p.fail("token %d does not carry the nonce of the session's lock", i)
		}
	}
}

func (p *player) state(pl *subject, l pair[core.SessionLock]) {
	p.Helper()
	a, errA := pl.Partition.In(p.a).SessionState(p.Context(), l.a)
	b, errB := pl.Partition.In(p.b).SessionState(p.Context(), l.b)
	p.tell("%sstate of %s: %#v %v", pl.Subscription, l.a.ID, a, errA)
	p.sameCode("session state", errA, errB)
	if string(a) != string(b) || (a == nil) != (b == nil) {
		p.fail("session state: model %#v, engine %#v", a, b)
	}
}

func (p *player) setState(pl *subject, l pair[core.SessionLock], state []byte) {
	p.Helper()
	a := pl.Partition.In(p.a).SetSessionState(p.Context(), l.a, state)
	b := pl.Partition.In(p.b).SetSessionState(p.Context(), l.b, state)
	p.tell("%sset state of %s to %#v: %v", pl.Subscription, l.a.ID, state, a)
	p.sameCode("set session state", a, b)
	p.lost(pl, l, a)
}

func (p *player) describeSessions(pl *subject) {
	p.Helper()
	ids, err := pl.Partition.In(p.a).ListSessions(p.Context(), time.Time{}, "", 100)
	p.sameCode("list sessions", err, nil)
	ids = append(ids, "other")
	a, errA := pl.Partition.In(p.a).DescribeSessions(p.Context(), ids, true)
	b, errB := pl.Partition.In(p.b).DescribeSessions(p.Context(), ids, true)
	p.tell("%sdescribe sessions: %+v %v", pl.Subscription, a, errA)
	p.sameCode("describe sessions", errA, errB)
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		p.fail("describe sessions: model %+v, engine %+v", a, b)
	}
}

func (p *player) listSessions(pl *subject, since time.Time, after core.SessionKey, top int) {
	p.Helper()
	a, errA := pl.Partition.In(p.a).ListSessions(p.Context(), since, after, top)
	b, errB := pl.Partition.In(p.b).ListSessions(p.Context(), since, after, top)
	p.tell("%slist sessions since %v after %q top %d: %q %v", pl.Subscription, since, after, top, a, errA)
	p.sameCode("list sessions", errA, errB)
	if fmt.Sprintf("%q", a) != fmt.Sprintf("%q", b) {
		p.fail("list sessions: model %q, engine %q", a, b)
	}
}
