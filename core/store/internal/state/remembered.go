package state

import (
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// remembered is what a Store keeps in memory of messages that may be gone, in bytes: the ids of
// duplicate detection and the keys of moves, and histories. Each has Options.Remember for itself.
type remembered struct {
	most   int64 // 0: no limit
	ids    atomic.Int64
	events atomic.Int64

	damaged atomic.Int64 // messages that were put aside
}

// refusesID reports whether an entity that holds so many bytes of ids may add no other. Up to three quarters
// of the limit everybody may; above, who holds less than is left: one sender's ids do not stop others. The
// keys of moves have a quarter more, so that forwarding goes on when ids have used up the limit.
func (r *remembered) refusesID(own int64, ofMove bool) bool {
	if r.most <= 0 {
		return false
	}
	left := r.most - r.ids.Load()
	if ofMove {
		return left+r.most/4 <= 0
	}
	return left <= 0 || left < r.most/4 && own >= left
}

// remembersTooMuch refuses a message whose id, or the key of whose move, would have to be remembered
// where there is no room for that: they cannot be forgotten before their time, because the message
// might come again.
func (t *txn) remembersTooMuch(m *core.Message) error {
	if !t.remembered.refusesID(t.home.seen.weight+t.home.moves.weight, transit(m).Key != "") || !t.isNew(m) {
		return nil
	}
	return core.CertainlyNotDone(core.Refuse(core.Busy,
		"The gateway remembers as many message ids as it has memory for (%d bytes), and leaves some to other entities: send later, or give it more memory, or entities a shorter duplicate detection window.",
		t.remembered.most))
}

// isNew reports whether something of m will be remembered that is not yet.
func (t *txn) isNew(m *core.Message) bool {
	if key := transit(m).Key; key != "" {
		return !t.isKnown(m)
	}
	key, since := t.duplicateKey(m)
	return key != "" && !t.home.seen.knows(key, since)
}

// forgetAll is for a state that is dropped, or begun anew.
func (b *entityState) forgetAll() {
	r := b.partition.remembered
	r.ids.Add(-b.seen.weight - b.moves.weight)
	r.events.Add(-b.history.weight)
	b.seen, b.moves, b.history = seenIDs{}, seenIDs{}, history{}
}
