package state

import (
	"cmp"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// EndLinks ends what has ended with the process that had the store before: the locks of sessions,
// with those of their messages, and the broker's own locks. No failed delivery counts. Receivers keep
// the other locks of messages, whose tokens outlive connections. Free sessions begin to wait by their
// first available messages: the journal does not know for how long they have waited. It is called after
// Start, before any other call.
func (s *Store) EndLinks() {
	_ = s.whileOpening(func(t *txn, q *queue) error { // it never fails
		// The next call with the entity's policy keeps its history within its bounds.
		t.History = core.HistoryBounds{Keep: math.MaxInt64, Max: math.MaxInt}
		t.endLinks(q)
		q.lineUp()
		return nil
	})
}

func (t *txn) endLinks(q *queue) {
	var ended []*entry
	for _, x := range q.locks.items {
		// Versions without the mark had none but the broker's locks in transfer queues.
		if e := x.of; !e.delayed && (e.session != nil || e.byBroker || q.ref.Sub == core.Transfer) {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(a, b *entry) int { return cmp.Compare(a.n, b.n) })
	for _, e := range ended {
		if len(q.home.history.events) > 0 {
			t.note(core.EventReleased, q, e)
		}
		if e.state == lockedDeferred {
			q.move(e, deferred)
		} else {
			q.move(e, again) // what has expired meanwhile is found by the next sweep
		}
		if x := t.effects; x != nil && x.IsLarge() {
			x.append()
		}
	}
	var held []*session
	for _, x := range q.held.items {
		held = append(held, x.of)
	}
	slices.SortFunc(held, func(a, b *session) int { return cmp.Compare(a.key, b.key) })
	for _, x := range held {
		q.letGo(x)
	}
}
