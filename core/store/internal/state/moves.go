package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

var noTransit core.Transit

// transit never returns nil. The caller must not change the result.
func transit(m *core.Message) *core.Transit {
	if m.Transit == nil {
		return &noTransit
	}
	return m.Transit
}

// kept returns the message as the store keeps it: without Transit.Key, and with a copy of the body
// if the body's array is much larger than the body.
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

// isRepeated reports whether m's move has already ended here. If not, it records the move's key.
func (t *txn) isRepeated(m *core.Message) bool {
	key := transit(m).Key
	if key == "" {
		return false
	}
	if t.isKnown(m) {
		return true
	}
	t.home.forgetSome(&t.home.moves, t.now-core.KeyLife.Milliseconds())
	t.home.remember(&t.home.moves, key, t.now)
	return false
}

func (t *txn) isKnown(m *core.Message) bool {
	return t.home.moves.knows(transit(m).Key, t.now-core.KeyLife.Milliseconds())
}

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

func (b *entityState) forgetMove(key string) {
	weight := b.moves.drop(key)
	if weight == 0 {
		return
	}
	b.weigh(&b.moves, -weight)
	b.partition.effects.do(Effect{Kind: EffectForget, Of: b.ref, Text: key})
}

const (
	relocateStep  = 200
	relocateBytes = 1 << 20
)

// Relocate appends to the journal again the records for which from returns true, so that the
// journal can remove the old ones. Its steps are short, so that other calls need not wait long.
func (s *Store) Relocate(ctx context.Context, from func(Ref) bool) error {
	for _, p := range s.allPartitions() {
		p.mu.Lock()
		homes := p.homes()
		p.mu.Unlock()
		for _, home := range homes {
			for sub := range core.SubQueues {
				if err := s.relocate(ctx, p, home, sub, from); err != nil {
					return fmt.Errorf("cannot compact entity %s, partition %d: %w", p.entityID, p.index, err)
				}
			}
		}
	}
	return nil
}

type stray struct {
	n       int64
	ref     Ref
	message *core.Message
	err     error // error of reading message
}

func (s *Store) relocate(ctx context.Context, p *partition, home *entityState, sub core.SubQueue, from func(Ref) bool) error {
	for next := int64(0); next >= 0; {
		var strays []stray
		strays, next = p.strays(home, sub, next, from)
		if len(strays) == 0 {
			continue
		}
		var ms []*core.Message
		for i := range strays {
			x := &strays[i]
			x.message, x.err = s.journal.Read(x.ref, Ref{}) // without later changes, which only the entry has
			if x.err == nil {
				ms = append(ms, x.message)
			}
		}
		x, err := s.begin(ctx, func(x *effects) error { return x.Messages(ctx, ms) })
		if err != nil {
			return err
		}
		if err := p.place(home, sub, strays, x); err != nil {
			return err
		}
	}
	return nil
}

// strays finds records to append again. next is the number to continue at, or -1 at the end.
func (p *partition) strays(home *entityState, sub core.SubQueue, first int64, from func(Ref) bool) (found []stray, next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := home.queues[sub]
	if q == nil {
		return nil, -1
	}
	seen, bytes := 0, 0
	for e := range q.log.from(first) {
		if seen++; seen > 10*relocateStep || len(found) == relocateStep || bytes > relocateBytes {
			return found, e.n
		}
		if from(e.ref) {
			found = append(found, stray{n: e.n, ref: e.ref})
			bytes += e.size
		}
	}
	return found, -1
}

// strayed returns the entry of x, or nil if x is gone or has another record. The entry may be a
// temporary one, made from a row. p.mu is held.
func (p *partition) strayed(home *entityState, sub core.SubQueue, x *stray) *entry {
	q := home.queues[sub]
	if q == nil || p.entity(home.ref.Subscription) != home {
		return nil
	}
	if e := q.log.view(x.n); e != nil && e.ref == x.ref {
		return e
	}
	return nil
}

// place appends the found records again, except damaged ones. If it cannot read one, it returns the
// error, unless the message was removed meanwhile: then its segment may be gone.
func (p *partition) place(home *entityState, sub core.SubQueue, found []stray, x *effects) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer x.release()
	for i := range found {
		e := p.strayed(home, sub, &found[i])
		if e == nil || errors.Is(found[i].err, ErrDamaged) {
			continue
		}
		if found[i].err != nil {
			err = found[i].err
			continue
		}
		q := home.queues[sub]
		if e.isRow {
			q.promote(e) // x.append makes it a row again
		}
		record, _ := x.Record(found[i].message)
		e.record = record + 1
		x.do(Effect{Kind: EffectPlace, Of: q.ref, Number: e.n, Record: record})
		x.puts = append(x.puts, put{e, q})
	}
	x.append()
	return err
}
