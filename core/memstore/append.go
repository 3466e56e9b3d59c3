package memstore

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Append stores groups of messages, each group all or nothing, in order.
func (s *Store) Append(_ context.Context, p core.Partition, groups [][]*core.Message) []core.Appended {
	answers := make([]core.Appended, len(groups))
	t, ok := s.enter(p)
	if !ok {
		err := fmt.Errorf("append to %s/%d: %w", p.Entity, p.Index, core.NotFound)
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	defer t.leave()
	for i, group := range groups {
		answers[i].Numbers, answers[i].Err = t.append(group)
	}
	return answers
}

func (t *turn) append(group []*core.Message) ([]int64, error) {
	if t.MaxBytes > 0 && t.queue.bytes >= t.MaxBytes {
		return nil, core.Refuse(core.QuotaExceeded,
			"The maximum entity size has been reached or exceeded. Size of entity in bytes: %d, max entity size in bytes: %d.",
			t.queue.bytes, t.MaxBytes)
	}
	numbers := make([]int64, len(group))
	for i, m := range group {
		if t.isDuplicate(m) {
			continue
		}
		if due := m.ScheduledEnqueueTime; !due.IsZero() && due.UnixMilli() > t.now {
			numbers[i] = t.schedule(t.queue, m, due.UnixMilli())
		} else {
			numbers[i] = t.enqueue(t.queue, m)
		}
	}
	return numbers, nil
}

// enqueue makes m available now and returns its sequence number.
func (t *turn) enqueue(q *queue, m *core.Message) int64 {
	e := &entry{message: m, enqueued: t.now, origin: t.number(q.last + 1)}
	if m.TimeToLive > 0 {
		e.expires = t.now + m.TimeToLive.Milliseconds()
	}
	q.append(e)
	t.rings[q.sub] = true
	return e.origin
}

// schedule keeps m until it is due and returns its sequence number.
func (t *turn) schedule(q *queue, m *core.Message, due int64) int64 {
	e := &entry{message: m, enqueued: t.now, origin: t.number(q.last + 1), standing: scheduled, until: due}
	q.append(e)
	t.rings[q.sub] = true // who waits must learn when to ask again
	return e.origin
}
