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
	return key != "" && !t.moved().first(key, t.now)
}

// isKnown is isRepeated without consequences.
func (t *txn) isKnown(m *core.Message) bool {
	_, known := t.moved().known[transit(m).Key]
	return known
}

// moved returns the keys of the moves that ended here and are remembered.
func (t *txn) moved() *seenIDs {
	t.home.moves.forget(t.now - core.KeyLife.Milliseconds())
	return &t.home.moves
}

// Forget drops the keys of moves.
func (s *Store) Forget(_ context.Context, p core.Partition, keys []string) error {
	t, ok := s.enter(p)
	if !ok {
		return nil
	}
	defer t.leave()
	for _, key := range keys {
		delete(t.home.moves.known, key)
	}
	t.home.moves.tidy()
	return nil
}
