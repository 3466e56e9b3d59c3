package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func Merge(found [][]core.Event) []core.Event {
	for i := range found {
		found[i] = mergeEvents(found[i])
	}
	events := slices.Concat(found...)
	slices.SortStableFunc(events, byTime)
	return events
}

// mergeEvents adds the details in each of the broker's notes to the event of the store that the
// note describes, if there is one.
func mergeEvents(events []core.Event) []core.Event {
	merged := make([]core.Event, 0, len(events))
	var deliveries, others []core.Event
	later := map[int64]bool{}
	for i := range events {
		e := &events[i]
		if e.Kind == core.EventScheduled && e.Sub == core.Main {
			later[e.Number] = true
		}
		if e.Gateway == "" {
			merged = append(merged, *e)
			continue
		}
		if fact := describedEvent(merged, e); fact != nil {
			if e.Kind == core.EventForwarded {
				fact.Kind = e.Kind
			}
			fact.Note, fact.Reason = e.Note, cmp.Or(fact.Reason, e.Reason)
			continue
		}
		if e.Kind == core.EventDelivered {
			deliveries = append(deliveries, *e)
		} else {
			others = append(others, *e)
		}
	}
	merged = append(placeDeliveries(merged, deliveries), others...)
	return slices.DeleteFunc(merged, func(e core.Event) bool {
		// A scheduled message's rules are evaluated again when it is due: show only that result.
		return (e.Kind == core.EventMatched || e.Kind == core.EventUnmatched) && later[e.Number]
	})
}

// placeDeliveries puts each delivery before the event that ended its lock, because the clock of the
// gateway that delivered may be ahead of that of the gateway that settled.
func placeDeliveries(events, deliveries []core.Event) []core.Event {
	before := map[int][]core.Event{}
	for _, d := range deliveries {
		end, last, delayed := -1, -1, false
		for i := range events {
			e := &events[i]
			if e.Sub != d.Sub || e.Number != d.Number {
				continue
			}
			last = i
			returns := delayed && e.Kind == core.EventReleased // EventPostponed has ended the lock, not this EventReleased
			if delayed = e.Kind == core.EventPostponed; returns || !endsLock[e.Kind] || len(before[i]) > 0 || e.Time.Add(skew).Before(d.Time) {
				continue
			}
			if end = i; !e.Time.Before(d.Time) {
				break
			}
		}
		switch {
		case end >= 0:
			if f := &events[end]; f.Time.Before(d.Time) {
				d.Time = f.Time
			}
		case last >= 0 && events[last].Time.After(d.Time): // the message is still locked
			d.Time = events[last].Time
		}
		before[end] = append(before[end], d)
	}
	all := make([]core.Event, 0, len(events)+len(deliveries))
	for i := range events {
		all = append(append(all, before[i]...), events[i])
	}
	return append(all, before[-1]...)
}

var endsLock = map[core.EventKind]bool{
	core.EventCompleted: true, core.EventAbandoned: true, core.EventPostponed: true, core.EventReleased: true,
	core.EventDeferred: true, core.EventLockExpired: true, core.EventDeadLettered: true, core.EventForwarded: true,
}

// skew is by how much clocks may differ: the store's event may seem that much later than its note.
const skew = time.Second

// describedEvent returns the last event of the store that a note can describe, or nil: some notes
// describe none, and the store drops old events.
func describedEvent(events []core.Event, note *core.Event) *core.Event {
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		same := e.Sub == note.Sub && e.Number == note.Number && (e.Number != 0 || e.MessageID == note.MessageID)
		if same && e.Gateway == "" && describes(note.Kind, e.Kind) && !e.Time.After(note.Time.Add(skew)) {
			return e
		}
	}
	return nil
}

func describes(note, event core.EventKind) bool {
	switch note {
	case core.EventAccepted:
		return event == note || event == core.EventScheduled
	case core.EventAbandoned, core.EventReleased:
		return event == note || event == core.EventPostponed
	case core.EventForwarded:
		return event == core.EventCompleted
	default:
		return note == event
	}
}

// byTime orders events of one instant so that a cause comes before its effect.
func byTime(a, b core.Event) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(ranks[a.Kind], ranks[b.Kind]))
}

var ranks = map[core.EventKind]int{
	core.EventRouted: -3, core.EventDropped: -3, core.EventDiverted: -3, core.EventParked: -3,
	core.EventAccepted: -2, core.EventScheduled: -2, core.EventActivated: -2,
	core.EventMatched: -1, core.EventUnmatched: -1,
}
