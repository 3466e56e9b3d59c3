package state

import (
	"cmp"
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/turn"
)

func (p *handle) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	return p.store(ctx, "append", groups, 0, nil)
}

func (p *handle) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	return p.store(ctx, "publish", nil, version, groups)
}

// store stores messages or publications.
func (p *handle) store(ctx context.Context, verb string, messages [][]*core.Message, version int64, publications [][]core.Publication) []core.Appended {
	answers := make([]core.Appended, max(len(messages), len(publications)))
	refuse := func(err error) []core.Appended {
		for i := range answers {
			answers[i] = core.Appended{Err: fmt.Errorf("cannot %s messages to %v: %w", verb, p.Ref, err)}
		}
		return answers
	}
	n := core.CountOf(messages)
	for _, group := range publications {
		for i := range group {
			n += 1 + len(group[i].Copies)
		}
	}
	var large turn.Turn
	large.Take(n)
	defer large.End()
	x, err := p.begin(ctx, func(x *effects) error {
		for _, group := range messages {
			if err := x.Messages(ctx, group); err != nil {
				return err
			}
		}
		for _, group := range publications {
			if err := x.publications(ctx, group); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return refuse(err)
	}
	t, _, ok := p.enterOnce(x)
	if !ok {
		return refuse(core.NotFound)
	}
	for i, group := range messages {
		answers[i].Numbers, answers[i].Err = t.append(group, nil)
	}
	for i, group := range publications {
		answers[i].Numbers, answers[i].Err = t.publish(version, group, nil)
	}
	t.leave()
	large.End()
	if err := t.wait(ctx); err != nil {
		return refuse(err)
	}
	return answers
}

func (t *txn) append(group []*core.Message, spare sparing) ([]int64, error) {
	if err := core.CheckSize(t.bytes, t.MaxBytes); err != nil && !t.allKnown(group, spare) {
		return nil, err
	}
	for _, m := range group {
		if err := t.remembersTooMuch(m); err != nil {
			return nil, err
		}
	}
	numbers := make([]int64, len(group))
	for i, m := range group {
		if t.isRepeated(m) || t.isDuplicate(m, spare.has(i)) {
			continue
		}
		due, later := t.due(m)
		switch {
		case spare.has(i):
			numbers[i] = noted
		case later:
			numbers[i] = t.schedule(m, due)
		default:
			numbers[i] = t.enqueue(t.queue, m, t.Sessions, 0)
		}
	}
	return numbers, nil
}

func (t *txn) allKnown(group []*core.Message, spare sparing) bool {
	for i, m := range group {
		if !spare.drops(i) && !t.isKnown(m) {
			return false
		}
	}
	return true
}

func (t *txn) due(m *core.Message) (due int64, later bool) {
	if m.ScheduledEnqueueTime.IsZero() {
		return 0, false
	}
	due = m.ScheduledEnqueueTime.UnixMilli()
	return due, due > t.now
}

// enqueue stores m in q. origin is the number of m in the entity that stored it first, or 0 if that
// is q's entity.
func (t *txn) enqueue(q *queue, m *core.Message, sessionful bool, origin int64) int64 {
	number := t.admit(q, t.newEntry(m), sessionful, origin)
	t.noteArrival(core.EventAccepted, q, m, number, origin, 0)
	return number
}

func (t *txn) newEntry(m *core.Message) *entry {
	e := &entry{noted: t.History.Max > 0}
	if x := t.effects; x != nil {
		record, body := x.Record(m)
		if e.record = record + 1; body.Length > 0 {
			e.more = &extra{body: body}
		}
	}
	e.setMessage(kept(m))
	e.size = sizeOf(e.message)
	return e
}

func (e *entry) setMessage(m *core.Message) {
	e.message, e.life = m, max(m.TimeToLive, 0)
	if origin := transit(m).EnqueuedSequenceNumber; origin != 0 {
		e.origin, e.moved = origin, true
	}
}

func (t *txn) admit(q *queue, e *entry, sessionful bool, origin int64) int64 {
	number := t.number(q.last + 1)
	e.enqueued, e.origin, e.sessionful = t.now, cmp.Or(e.origin, origin, number), sessionful
	if e.life > 0 {
		e.expires = t.now + e.life.Milliseconds()
	}
	q.append(e)
	t.announce(q, e)
	return number
}

func (t *txn) schedule(m *core.Message, due int64) int64 {
	number := t.waitForTime(m, scheduled, due)
	t.noteArrival(core.EventScheduled, t.queue, m, number, 0, due)
	t.wakeReceivers(t.queue) // a waiting receiver must learn the new due time
	return number
}

func (t *txn) waitForTime(m *core.Message, state MessageState, until int64) int64 {
	e, number := t.newEntry(m), t.number(t.queue.last+1)
	e.enqueued, e.origin, e.sessionful = t.now, cmp.Or(e.origin, number), t.Sessions
	e.state, e.until = state, until
	t.queue.append(e)
	return number
}

func (t *txn) scheduleReserved(e *entry) {
	if t.isDuplicate(e.message, false) {
		t.queue.remove(e)
		return
	}
	e.until = e.message.ScheduledEnqueueTime.UnixMilli()
	t.queue.move(e, scheduled)
	t.noteArrival(core.EventScheduled, t.queue, e.message, t.number(e.n), 0, e.until)
	if t.effects != nil {
		t.queue.keepInMemory(e)
	}
	t.wakeReceivers(t.queue) // a waiting receiver must learn the new due time
}
