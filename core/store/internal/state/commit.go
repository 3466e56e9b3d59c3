package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/turn"
)

// Commit checks everything that can be refused before it changes anything.
func (p *handle) Commit(ctx context.Context, w core.Work) ([]int64, error) {
	var large turn.Turn
	large.Take(len(w.Messages) + len(w.Settlements) + len(w.Publications))
	defer large.End()
	x, err := p.begin(ctx, func(x *effects) error { return x.work(ctx, &w) })
	if err != nil {
		return nil, fmt.Errorf("cannot commit changes to %v: %w", p.Ref, err)
	}
	t, ok := p.enterWith(x)
	if !ok {
		return nil, fmt.Errorf("cannot commit changes to %v: %w", p.Ref, core.NotFound)
	}
	numbers, err := t.commit(w)
	t.leave()
	large.End()
	if waited := t.wait(ctx); waited != nil {
		return nil, fmt.Errorf("cannot commit changes to %v: %w", p.Ref, waited)
	}
	return numbers, err
}

func (t *txn) commit(w core.Work) ([]int64, error) {
	ending, err := t.settleables(w.Settlements)
	if err != nil {
		return nil, fmt.Errorf("cannot commit changes to %v: %w", t.Ref, err)
	}
	stateful, err := t.stateful(w.States)
	if err != nil {
		return nil, fmt.Errorf("cannot commit changes to %v: %w", t.Ref, err)
	}
	cancelled := t.allInState(w.Cancels, scheduled, reserved)
	if cancelled == nil {
		return nil, missing("scheduled", t.Ref, w.Cancels)
	}
	waiting := t.allInState(core.NumbersOf(w.Scheduled), reserved)
	if waiting == nil {
		return nil, missing("reserved", t.Ref, core.NumbersOf(w.Scheduled))
	}
	if w.Check {
		return nil, nil
	}
	for i, e := range ending {
		if err := t.checkProperties(e, &w.Settlements[i]); err != nil {
			return nil, err
		}
	}
	for i, x := range stateful {
		if err := t.checkState(x, w.States[i].State); err != nil {
			return nil, err
		}
	}
	// Nothing may be refused after appendWork, which stores nothing if it returns an error.
	numbers, err := t.appendWork(&w)
	if err != nil {
		return nil, err
	}
	for _, e := range waiting {
		t.scheduleReserved(e)
	}
	for i, e := range ending {
		t.carryOut(e, &w.Settlements[i])
	}
	t.cancel(cancelled)
	for i, x := range stateful {
		t.queue.keep(x, slices.Clone(w.States[i].State), t.now, w.States[i].Lock.ID)
	}
	for _, m := range w.Transfers {
		t.enqueue(t.home.queue(core.Transfer), m, false, 0)
	}
	t.takeEffect(w.Effects, numbers)
	return numbers, nil
}

func (t *txn) stateful(states []core.SessionState) ([]*session, error) {
	all := make([]*session, len(states))
	for i := range states {
		if all[i] = t.holds(&states[i].Lock); all[i] == nil {
			return nil, core.SessionLockLost
		}
	}
	return all, nil
}

func (t *txn) appendWork(w *core.Work) ([]int64, error) {
	if err := core.CheckSize(t.bytes, t.MaxBytes); err != nil && w.Grows() {
		return nil, err
	}
	if !w.Reserve.IsZero() {
		return t.reserveWork(w)
	}
	if len(w.Publications) > 0 {
		return t.publish(w.Version, w.Publications, spared(w, len(w.Publications)))
	}
	if len(w.Messages) > 0 {
		return t.append(w.Messages, spared(w, len(w.Messages)))
	}
	return nil, nil
}

func (t *txn) reserveWork(w *core.Work) ([]int64, error) {
	ms := w.Messages
	if len(w.Publications) > 0 {
		if w.Version < t.version {
			return nil, t.outdated(w.Version)
		}
		ms = nil
		for i := range w.Publications {
			ms = append(ms, w.Publications[i].Message)
		}
	}
	if err := core.CheckSize(t.bytes, t.MaxBytes); err != nil {
		return nil, err
	}
	numbers := make([]int64, len(ms))
	for i, m := range ms { // these expire if the transaction has not committed by then
		numbers[i] = t.waitForTime(m, reserved, w.Reserve.UnixMilli())
	}
	return numbers, nil
}

// sparing says which messages of a group are not stored. nil means that all are stored.
type sparing []remains

type remains uint8

const (
	whole    remains = iota
	replaced         // only its id is remembered; its effect stores other messages
	dropped          // only its id is remembered
)

func (s sparing) has(i int) bool { return s != nil && s[i] != whole }

func (s sparing) drops(i int) bool { return s != nil && s[i] == dropped }

const noted = -1

func spared(w *core.Work, n int) sparing {
	var s sparing
	for i := range w.Effects {
		x := &w.Effects[i]
		if !x.Instead {
			continue
		}
		if s == nil {
			s = make(sparing, n)
		}
		s[x.Of] = dropped
		if x.Stores() {
			s[x.Of] = replaced
		}
	}
	return s
}

// takeEffect skips the effects of duplicates, whose numbers are 0.
func (t *txn) takeEffect(effects []core.Effect, numbers []int64) {
	for i := range effects {
		x := &effects[i]
		if numbers[x.Of] == 0 {
			continue
		}
		if x.Instead {
			numbers[x.Of] = 0
		}
		for _, m := range x.DeadLetters {
			t.enqueue(t.home.queue(core.DeadLetter), m, false, 0)
		}
		for _, m := range x.Transfers {
			t.enqueue(t.home.queue(core.Transfer), m, false, 0)
		}
	}
}

func (t *txn) settleables(settlements []core.Settlement) ([]*entry, error) {
	given := make(map[core.LockToken]bool, len(settlements))
	ending := make([]*entry, len(settlements))
	for i := range settlements {
		x := &settlements[i]
		if given[x.Token] {
			return nil, lost(t.Policy, x.Session)
		}
		var err error
		if ending[i], err = t.settleable(x); err != nil {
			return nil, err
		}
		given[x.Token] = true
	}
	return ending, nil
}
