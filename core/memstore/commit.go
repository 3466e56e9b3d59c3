package memstore

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Commit does all of a transaction's work, or nothing: it looks at everything
// that could be refused before it changes anything.
func (s *Store) Commit(_ context.Context, p core.Partition, w core.Work) ([]int64, error) {
	t, ok := s.enter(p)
	if !ok {
		return nil, fmt.Errorf("commit at %s/%d: %w", p.Entity, p.Index, core.NotFound)
	}
	defer t.leave()
	if err := t.checkSettlements(w.Settlements); err != nil {
		return nil, fmt.Errorf("commit at %s/%d: %w", p.Entity, p.Index, err)
	}
	cancelled := t.allStandingAs(w.Cancels, scheduled)
	if cancelled == nil {
		return nil, missing("scheduled", p, w.Cancels)
	}
	// The only part that refuses by itself, and it does so before it stores anything.
	numbers, err := t.appendWork(&w)
	if err != nil {
		return nil, err
	}
	for i := range w.Settlements {
		_ = t.settle(&w.Settlements[i]) // checked above
	}
	for _, e := range cancelled {
		t.note(core.EventCancelled, t.queue, e)
		t.queue.remove(e)
	}
	for _, m := range w.Transfers {
		t.enqueue(t.home.queue(core.Transfer), kept(m), false, 0)
	}
	t.takeEffect(w.Effects, numbers)
	return numbers, nil
}

func (t *turn) appendWork(w *core.Work) ([]int64, error) {
	if len(w.Publications) > 0 {
		return t.publish(w.Version, w.Publications, spared(w, len(w.Publications)))
	}
	if len(w.Messages) > 0 {
		return t.append(w.Messages, spared(w, len(w.Messages)))
	}
	return nil, nil
}

// sparing says which messages of a group are not to be stored, but noted; nil: none.
type sparing []bool

func (s sparing) has(i int) bool { return s != nil && s[i] }

// noted is the number of a message that was noted, until its effects are seen to.
const noted = -1

func spared(w *core.Work, n int) sparing {
	var s sparing
	for i := range w.Effects {
		if w.Effects[i].Instead {
			if s == nil {
				s = make(sparing, n)
			}
			s[w.Effects[i].Of] = true
		}
	}
	return s
}

// takeEffect does what else comes of messages that were given these numbers.
func (t *turn) takeEffect(effects []core.Effect, numbers []int64) {
	for i := range effects {
		x := &effects[i]
		if numbers[x.Of] == 0 {
			continue
		}
		if x.Instead {
			numbers[x.Of] = 0
		}
		for _, m := range x.DeadLetters {
			t.enqueue(t.home.queue(core.DeadLetter), kept(m), false, 0)
		}
		for _, m := range x.Transfers {
			t.enqueue(t.home.queue(core.Transfer), kept(m), false, 0)
		}
	}
}

// checkSettlements reports why one of them could not be carried out.
func (t *turn) checkSettlements(settlements []core.Settlement) error {
	given := make(map[core.LockToken]bool, len(settlements))
	for i := range settlements {
		x := &settlements[i]
		if t.holder(x.Token) == nil || given[x.Token] {
			return lost(t.Policy)
		}
		if err := t.allows(x); err != nil {
			return err
		}
		given[x.Token] = true
	}
	return nil
}
