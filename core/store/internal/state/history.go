package state

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

type history struct {
	events  []core.Event
	written []int64 // ascending
	trimmed int64
	weight  int64
}

// leastEvents is how many events each history keeps, even if all together exceed Options.Remember.
const leastEvents = 100

// eventWeight estimates the bytes of an event without its strings.
const eventWeight = 300

func weightOfEvent(e *core.Event) int64 {
	return eventWeight + int64(len(e.MessageID.Raw())+len(e.Reason)+len(e.By.Policy)+len(e.By.Peer)+
		len(e.Entity)+len(e.Rule)+len(e.Plugin)+len(e.Gateway))
}

func (t *txn) remember(home *entityState, e core.Event) {
	h, now := &home.history, t.now
	if n := len(h.written); n > 0 {
		now = max(now, h.written[n-1])
	}
	if e.Time.IsZero() {
		e.Time = core.Instant(now)
	}
	home.addEvent(e, now)
	last := len(h.events) - 1
	t.effects.do(Effect{Kind: EffectEvent, Of: home.ref, Number: h.trimmed + int64(last), At: now, Object: &h.events[last]})
	t.trimHistory(home, now)
}

func (t *txn) trimHistory(home *entityState, now int64) {
	h := &home.history
	gone := max(0, len(h.events)-t.History.Max)
	for gone < len(h.written) && h.written[gone] <= now-t.History.Keep.Milliseconds() {
		gone++
	}
	for r, weight := t.remembered, int64(0); r.most > 0 && gone < len(h.events)-leastEvents && r.events.Load()-weight > r.most; {
		weight += weightOfEvent(&h.events[gone])
		gone++
	}
	if gone == 0 {
		return
	}
	home.dropEvents(gone)
	t.effects.do(Effect{Kind: EffectTrim, Of: home.ref, Number: h.trimmed})
}

func (b *entityState) addEvent(e core.Event, written int64) {
	h, weight := &b.history, weightOfEvent(&e)
	h.events, h.written = append(h.events, e), append(h.written, written)
	h.weight += weight
	b.partition.remembered.events.Add(weight)
}

func (b *entityState) dropEvents(gone int) {
	h, weight := &b.history, int64(0)
	for i := range gone {
		weight += weightOfEvent(&h.events[i])
	}
	h.weight -= weight
	b.partition.remembered.events.Add(-weight)
	h.trimmed += int64(gone)
	clear(h.events[:gone])
	h.events, h.written = h.events[gone:], h.written[gone:]
}

func (t *txn) note(kind core.EventKind, q *queue, e *entry) {
	if t.History.Max > 0 {
		t.write(q, core.Event{Kind: kind, Number: t.number(e.n)})
	}
}

func (t *txn) noteFailure(kind core.EventKind, q *queue, e *entry) {
	switch {
	case t.History.Max <= 0:
	case q.ref.Sub.IsDeadLetter(): // failed deliveries of dead letters are not counted
		t.note(kind, q, e)
	default:
		t.write(q, core.Event{Kind: kind, Number: t.number(e.n), Count: e.failures})
	}
}

func (t *txn) noteMove(kind core.EventKind, q *queue, e *entry, other int64, reason string) {
	if t.History.Max > 0 {
		t.write(q, core.Event{Kind: kind, Number: t.number(e.n), Other: other, MessageID: e.messageID(), Reason: reason})
	}
}

// noteArrival records that m was stored, or was refused as a duplicate.
func (t *txn) noteArrival(kind core.EventKind, q *queue, m *core.Message, number, origin, until int64) {
	if t.History.Max > 0 {
		t.write(q, core.Event{Kind: kind, Number: number, Other: origin, MessageID: m.MessageID, Until: core.Instant(until)})
	}
}

func (t *txn) write(q *queue, e core.Event) {
	e.Sub = q.ref.Sub
	t.remember(q.home, e)
}

func (p *handle) Annotate(ctx context.Context, events []core.Event) error {
	if p.History.Max <= 0 {
		return nil
	}
	t, ok := p.enter()
	if !ok {
		return nil
	}
	for _, e := range events {
		t.remember(t.home, e)
	}
	t.leave()
	return t.wait(ctx)
}

func (p *handle) Recollect(_ context.Context, subject core.Subject) ([]core.Event, error) {
	if p.History.Max <= 0 {
		return nil, nil
	}
	t, ok := p.enter()
	if !ok {
		return nil, nil
	}
	defer t.leave()
	h := &t.home.history
	t.trimHistory(t.home, t.now)
	trail := core.NewTrail(subject)
	for i := range h.events {
		trail.See(&h.events[i])
	}
	return trail.Found(), nil
}
