package state

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

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
