package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

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
// the same instant by number.
func (t *turn) sweep(q *queue) {
	for e := q.locks.due(t.now); e != nil; e = q.locks.due(t.now) {
		t.unlock(q, e, true)
	}
	for e := q.schedules.due(t.now); e != nil; e = q.schedules.due(t.now) {
		q.remove(e)
		t.enqueue(q, e.message)
	}
	for e := q.expiries.due(t.now); e != nil; e = q.expiries.due(t.now) {
		t.expire(e)
	}
}

// unlock ends the lock of e, and finds e's new place. In the main queue a
// failed delivery counts, the last one allowed dead-letters the message, and a
// time to live that ended under the lock takes effect. A deferred message stays
// deferred: it expires only when somebody asks for it.
func (t *turn) unlock(q *queue, e *entry, failed bool) {
	if failed && q.sub == core.Main {
		e.failures++
		if t.MaxDeliveryCount > 0 && int(e.failures) >= t.MaxDeliveryCount {
			t.deadLetter(e, because(core.ReasonMaxDeliveryCount, fmt.Sprintf(core.DescriptionMaxDeliveryCount, e.failures)))
			return
		}
	}
	switch {
	case e.standing == lockedDeferred:
		q.move(e, deferred)
	case q.hasExpired(e, t.now):
		t.expire(e)
	default:
		q.move(e, again)
		t.rings[q.sub] = true
	}
}

// expire removes a message of the main queue whose time to live is over.
func (t *turn) expire(e *entry) {
	if t.DeadLetterExpired {
		t.deadLetter(e, because(core.ReasonExpired, core.DescriptionExpired))
	} else {
		t.main.remove(e)
	}
}

// deadLetter moves a message from the main queue to the dead letters.
func (t *turn) deadLetter(e *entry, over core.Properties) {
	t.main.override(e, over)
	t.main.remove(e)
	t.dead.append(&entry{
		message:  e.message,
		origin:   e.origin,
		enqueued: e.enqueued,
		expires:  e.expires,
		failures: e.failures,
	})
	t.rings[core.DeadLetter] = true
}

// because says why a message is dead-lettered.
func because(reason, description string) core.Properties {
	over, err := core.NewProperties(
		core.Property{Key: core.PropertyDeadLetterReason, Value: reason},
		core.Property{Key: core.PropertyDeadLetterDescription, Value: description},
	)
	if err != nil {
		panic(err) // the broker's own texts can always be encoded
	}
	return over
}
