package state

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *handle) Peek(ctx context.Context, r core.PeekRequest) ([]core.Delivery, error) {
	if r.Session != "" && !p.Sessions {
		return nil, nil
	}
	t, ok := p.enter()
	if !ok {
		return nil, nil
	}
	entries, most := t.queue.chosen(&r)
	limit := min(max(r.Max, 0), most)
	deliveries := make([]core.Delivery, 0, limit)
	for e := range entries {
		if len(deliveries) >= limit {
			break
		}
		if e.state >= reserved || r.State != nil && e.state.state() != *r.State {
			continue
		}
		d := t.delivery(e)
		if e.state.IsLocked() {
			d.LockedUntil = core.Instant(e.until)
		}
		deliveries = append(deliveries, d)
	}
	t.leave()
	deliveries, err := t.complete(ctx, deliveries)
	if err != nil {
		return nil, fmt.Errorf("cannot peek at %v: %w", p.Ref, err)
	}
	return deliveries, nil
}

func (q *queue) chosen(r *core.PeekRequest) (iter.Seq[*entry], int) {
	switch {
	case r.Session != "":
		first := q.firstOf(r.Session, r.From, max(r.Max, 0))
		return slices.Values(first), len(first)
	case r.State == nil || *r.State == core.Active:
		return q.log.from(r.From), q.log.live
	case *r.State == core.Deferred:
		return q.log.aside(r.From, deferred, lockedDeferred), int(q.counts[deferred] + q.counts[lockedDeferred])
	default:
		return q.log.aside(r.From, scheduled), int(q.counts[scheduled])
	}
}

// delivery leaves out the message if only the journal has it: then txn.complete reads it later.
func (t *txn) delivery(e *entry) core.Delivery {
	if j := t.Store.journal; j != nil {
		t.newest = max(t.newest, e.ref.Position)
		if e.message == nil {
			if t.pinned == nil {
				t.pinned = j.Pin()
			}
			t.absent = append(t.absent, absent{e.ref, e.more, e.due()})
		}
	}
	return t.withMessage(e, e.message)
}

// withMessage returns the delivery of e, whose message is m, or nil if it will be read later.
func (t *txn) withMessage(e *entry, m *core.Message) core.Delivery {
	d := core.Delivery{Message: m, BrokerProperties: core.BrokerProperties{
		SequenceNumber:         t.number(e.n),
		EnqueuedSequenceNumber: e.origin,
		EnqueuedTime:           core.Instant(e.enqueued),
		ExpiresAt:              core.Instant(e.expires),
		DeliveryCount:          e.failures,
		State:                  e.state.state(),
		DeadLetteredTime:       core.Instant(e.died()),
		Partitioned:            t.Partitioned,
	}}
	if m != nil {
		d.DeadLetterSource = transit(m).DeadLetterSource
		d.SetDue(e.due())
	}
	return d
}

func (e *entry) due() time.Time {
	if e.state != scheduled {
		return time.Time{}
	}
	return core.Instant(e.until)
}

func (s MessageState) state() core.State {
	switch s {
	case deferred, lockedDeferred:
		return core.Deferred
	case scheduled:
		return core.Scheduled
	default:
		return core.Active
	}
}

func (p *handle) Cancel(ctx context.Context, numbers []int64) error {
	t, ok := p.enter()
	if !ok {
		return missing("scheduled", p.Ref, numbers)
	}
	entries := t.allInState(numbers, scheduled, reserved)
	t.cancel(entries)
	t.leave()
	if err := t.wait(ctx); err != nil { // wait even if there are no such messages: an earlier call may just have cancelled them
		return err
	}
	if entries == nil {
		return missing("scheduled", p.Ref, numbers)
	}
	return nil
}

func (t *txn) cancel(entries []*entry) {
	for _, e := range entries {
		if e.state == scheduled {
			t.note(core.EventCancelled, t.queue, e)
		}
		t.queue.remove(e)
	}
}

func (p *handle) stats() (core.Stats, error) {
	t, ok := p.enter()
	if !ok {
		return core.Stats{}, nil
	}
	defer t.leave()
	q := t.queue
	bytes := q.bytes
	switch {
	case t.Ref.Sub != core.Main:
	case t.Ref.Subscription == "":
		bytes = t.bytes
	default:
		bytes = t.home.bytes()
	}
	return core.Stats{
		Ready:     q.counts[fresh] + q.counts[again],
		Locked:    q.counts[locked],
		Deferred:  q.counts[deferred] + q.counts[lockedDeferred],
		Scheduled: q.counts[scheduled] + q.counts[reserved],
		Damaged:   q.counts[broken],
		Bytes:     bytes,
		Enqueued:  q.last,

		SessionsHeld:    int64(len(q.held.items)),
		SessionsWaiting: int64(len(q.waiting.items)),
	}, p.stopped()
}

func (s *Store) StatsOf(_ context.Context, ps []core.Partition) []core.Counted {
	counted := make([]core.Counted, len(ps))
	for i := range ps {
		counted[i].Stats, counted[i].Err = (&handle{s, ps[i].Ref, ps[i].Policy}).stats()
	}
	return counted
}
