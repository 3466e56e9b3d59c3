package state

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
	if t.isKnown(m) {
		return true
	}
	t.forgetMoves()
	t.home.move(key, t.now)
	return false
}

// move remembers the key of a move that has ended here.
func (b *entityState) move(key string, at int64) {
	if x := b.partition.effects; x != nil {
		x.do(Effect{Kind: EffectMoved, Of: b.ref, Text: key, At: at})
	}
	b.remember(&b.moves, key, at)
}

// isKnown is isRepeated without consequences.
func (t *txn) isKnown(m *core.Message) bool {
	return t.home.moves.knows(transit(m).Key, t.now-core.KeyLife.Milliseconds())
}

// forgetMoves drops the keys of moves that ended here long ago: all, or many.
func (t *txn) forgetMoves() {
	until := t.now - core.KeyLife.Milliseconds()
	if !t.home.moves.isDue(until) {
		return
	}
	until = t.home.moves.some(until)
	if x := t.effects; x != nil {
		x.do(Effect{Kind: EffectMovedUntil, Of: t.home.ref, At: until})
	}
	t.home.forget(&t.home.moves, until)
}

// Forget drops the keys of moves.
func (p *handle) Forget(ctx context.Context, keys []string) error {
	t, ok := p.enter()
	if !ok {
		return nil
	}
	for _, key := range keys {
		t.home.forgetMove(key)
	}
	t.home.moves.tidy()
	t.leave()
	return t.wait(ctx)
}

// forgetMove drops the key of a move, if it is known.
func (b *entityState) forgetMove(key string) {
	weight := b.moves.drop(key)
	if weight == 0 {
		return
	}
	b.partition.remembered.ids.Add(-weight)
	if x := b.partition.effects; x != nil {
		x.do(Effect{Kind: EffectForget, Of: b.ref, Text: key})
	}
}
