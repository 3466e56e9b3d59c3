package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// sweepMost is how many messages, or sessions, a sweep does at most while it holds the partition, and
// a call that need not wait for more.
const sweepMost = 500

// Sweep does all that is due and returns when the next is.
func (s *Store) Sweep(_ context.Context, p core.Partition) (time.Time, error) {
	t, ok := s.enter(p)
	if !ok {
		return time.Time{}, nil
	}
	defer t.leave()
	return instant(t.queue.next()), nil
}

// sweep does what is due in q: first ends expired locks by deadline, then
// activates schedules by due time, then expires messages by expiry; those of
// the same instant by number. The locks of sessions end before those of their
// messages, which have the same deadlines. It returns false if the budget ends first.
//
// What it does depends on nothing that the queue's dead letters have a different
// Policy for, because it runs on their behalf too.
func (t *txn) sweep(q *queue, budget *int) (done bool) {
	for x := q.held.due(t.now); x != nil; x = q.held.due(t.now) {
		if !t.spend(budget) {
			return false
		}
		t.letGo(q, x)
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

// spend takes one of a sweep's budget. It returns false if nothing is left, or if the effects so far
// are large.
func (t *txn) spend(budget *int) bool {
	if *budget == 0 || t.effects != nil && len(t.effects.buf) > flushAt {
		return false
	}
	*budget--
	return true
}

// unlock ends the lock of e, and finds e's new place. failure is how the delivery
// failed, "" if it did not. But for dead letters a failed delivery counts, and the last one allowed
// dead-letters the message; a time to live that ended under the lock takes effect. A deferred message stays
// deferred: it expires only when a receiver asks for it.
func (t *txn) unlock(q *queue, e *entry, failure core.EventKind) {
	if failure != "" {
		q.countDelivery(e)
		t.noteFailure(failure, q, e)
		if t.hasFailed(q, e.failures) {
			t.deadLetter(q, e, reasonProperties(core.ReasonMaxDeliveryCount, fmt.Sprintf(core.DescriptionMaxDeliveryCount, e.failures)),
				core.ReasonMaxDeliveryCount)
			return
		}
	}
	switch {
	case e.state == lockedDeferred:
		q.move(e, deferred)
	case q.hasExpired(e, t.now):
		t.expire(q, e)
	default:
		q.move(e, again)
		t.announce(q, e)
	}
}

// hasFailed reports whether so many failed deliveries are too many.
func (t *txn) hasFailed(q *queue, failures uint32) bool {
	return !q.ref.Sub.IsDeadLetter() && t.MaxDeliveryCount > 0 && int(failures) >= t.MaxDeliveryCount
}

// announce calls the doorbells for e, which has become available.
func (t *txn) announce(q *queue, e *entry) {
	if e.session != nil && e.session.isHeld() {
		t.wakeHolder(q, e.session)
	} else {
		t.wakeReceivers(q)
	}
}

// expire removes a message whose time to live is over.
func (t *txn) expire(q *queue, e *entry) {
	if t.DeadLetterExpired {
		t.deadLetter(q, e, reasonProperties(core.ReasonExpired, core.DescriptionExpired), core.ReasonExpired)
	} else {
		t.note(core.EventExpired, q, e)
		q.remove(e)
	}
}

// deadLetter moves a message to the queue's dead letters, where it belongs to no
// session. reason is the broker's, "" where a receiver did it.
func (t *txn) deadLetter(q *queue, e *entry, over core.Properties, reason string) {
	q.override(e, over)
	q.remove(e)
	dead := t.home.queue(q.ref.Sub.DeadLetters())
	d := e.successor()
	d.origin, d.enqueued, d.expires, d.failures = e.origin, e.enqueued, e.expires, e.failures
	dead.append(d)
	t.noteMove(core.EventDeadLettered, q, e, t.number(dead.last), reason)
	t.wakeReceivers(dead)
}

// successor is an entry with e's message.
func (e *entry) successor() *entry {
	return &entry{message: e.message, ref: e.ref, more: e.more, size: e.size, record: e.record, noted: e.noted}
}

// reasonProperties says why a message is dead-lettered.
func reasonProperties(reason, description string) core.Properties {
	over, err := core.NewProperties(
		core.Property{Key: core.PropertyDeadLetterReason, Value: reason},
		core.Property{Key: core.PropertyDeadLetterDescription, Value: description},
	)
	if err != nil {
		panic(err) // the broker's own texts can always be encoded
	}
	return over
}
