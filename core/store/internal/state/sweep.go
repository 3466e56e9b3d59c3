package state

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// sweepMost is how many messages, or sessions, a sweep does at most while it holds the partition, and
// a call that need not wait for more.
const sweepMost = 500

// Sweep does all that is due and returns when the next is.
func (p *handle) Sweep(_ context.Context) (time.Time, error) {
	t, ok := p.enter()
	if !ok {
		return time.Time{}, nil
	}
	defer t.leave()
	return instant(t.queue.next()), nil
}

// sweep does what is due in q: first ends expired locks by deadline, then
// activates schedules by due time, then expires messages by expiry; those of
// the same instant by number. It returns false if the budget ends first.
//
// What it does depends on nothing that the queue's dead letters have a different
// Policy for, because it runs on their behalf too.
func (t *txn) sweep(q *queue, budget *int) (done bool) {
	for q.held.due(t.now) != nil {
		if !t.endSessions(q, budget) {
			return false
		}
	}
	for e := q.locks.due(t.now); e != nil; e = q.locks.due(t.now) {
		if !t.spend(budget) {
			return false
		}
		failure := core.EventLockExpired
		if e.delayed {
			failure = core.EventReturned
		}
		e.delayed = false
		t.unlock(q, e, failure)
	}
	for e := q.schedules.due(t.now); e != nil; e = q.schedules.due(t.now) {
		if !t.spend(budget) {
			return false
		}
		q.remove(e)
		if e.state == reserved { // its transaction has not committed in time
			continue
		}
		due := e.successor()
		due.life = e.life
		if e.moved {
			due.origin, due.moved = e.origin, true
		}
		t.noteMove(core.EventActivated, q, e, t.admit(q, due, e.sessionful, 0), "")
	}
	for q.anyExpired(t.now) {
		if !t.spend(budget) {
			return false
		}
		t.expire(q, q.firstExpired(t.now))
	}
	return true
}

// endSessions ends the locks of the sessions that end first, which is at one instant: those of their messages by number,
// then their own, by key. It returns false if the budget ends first.
func (t *txn) endSessions(q *queue, budget *int) (done bool) {
	ending := q.held.ties()
	var all []*entry
	for _, x := range ending {
		for _, m := range x.locked.items {
			all = append(all, m.of)
		}
	}
	slices.SortFunc(all, func(x, y *entry) int { return cmp.Compare(x.n, y.n) })
	for _, e := range all {
		if !t.spend(budget) {
			return false
		}
		t.unlock(q, e, core.EventLockExpired)
	}
	slices.SortFunc(ending, func(x, y *session) int { return cmp.Compare(x.key, y.key) })
	for _, x := range ending {
		if !t.spend(budget) {
			return false
		}
		t.letGo(q, x)
	}
	return true
}

// spend takes one of a sweep's budget. It returns false if nothing is left, or if the effects so far
// are large.
func (t *txn) spend(budget *int) bool {
	if *budget == 0 || t.effects != nil && t.effects.IsLarge() {
		return false
	}
	*budget--
	return true
}

// announce calls the doorbells for e, which has become available.
func (t *txn) announce(q *queue, e *entry) {
	if e.session != nil && e.session.isHeld() {
		t.wakeHolder(q, e.session)
	} else {
		t.wakeReceivers(q)
	}
}
