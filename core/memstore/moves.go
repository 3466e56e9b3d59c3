package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// noTransit is that of a message from a producer.
var noTransit core.Transit

// transit is what m brings along from another entity; it is not to be changed.
func transit(m *core.Message) *core.Transit {
	if m.Transit == nil {
		return &noTransit
	}
	return m.Transit
}

// kept is m as it is kept: without the key of its move, and without memory that
// its body does not need.
func kept(m *core.Message) *core.Message {
	body := m.Body.Bytes
	spare := cap(body)-len(body) > max(len(body)/8, 4096)
	if transit(m).Key == "" && !spare {
		return m
	}
	own := *m
	if spare {
		own.Body.Bytes = slices.Clip(bytes.Clone(body))
	}
	if transit(m).Key != "" {
		t := *m.Transit
		t.Key = ""
		own.Transit = &t
	}
	return &own
}

// isRepeated reports whether m comes from a move that has ended here; if not, it
// has from now on.
func (t *txn) isRepeated(m *core.Message) bool {
	key := transit(m).Key
	if key == "" {
		return false
	}
	if !t.moved().first(key, t.now) {
		return true
	}
	if x := t.effects; x != nil {
		x.text(t.home, effectMoved, key, t.now)
	}
	return false
}

// isKnown is isRepeated without consequences.
func (t *txn) isKnown(m *core.Message) bool {
	_, known := t.moved().known[transit(m).Key]
	return known
}

// moved returns the keys of the moves that ended here and are remembered.
func (t *txn) moved() *seenIDs {
	until := t.now - core.KeyLife.Milliseconds()
	if t.home.moves.isDue(until) {
		if x := t.effects; x != nil {
			x.until(t.home, effectMovedUntil, until)
		}
		t.home.moves.forget(until)
	}
	return &t.home.moves
}

// Forget drops the keys of moves.
func (s *Store) Forget(ctx context.Context, p core.Partition, keys []string) error {
	t, ok := s.enter(p)
	if !ok {
		return nil
	}
	for _, key := range keys {
		if _, known := t.home.moves.known[key]; known {
			t.home.forgetMove(key)
		}
	}
	t.home.moves.tidy()
	t.leave()
	return t.wait(ctx)
}

// forgetMove drops the key of a move.
func (b *entityState) forgetMove(key string) {
	delete(b.moves.known, key)
	if x := b.partition.effects; x != nil {
		x.text(b, effectForget, key, 0)
	}
}
