package memstore

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Settle ends locks, one after the other.
func (s *Store) Settle(_ context.Context, p core.Partition, settlements []core.Settlement) []error {
	errs := make([]error, len(settlements))
	t, ok := s.enter(p)
	if !ok {
		for i := range errs {
			errs[i] = lost(p.Policy)
		}
		return errs
	}
	defer t.leave()
	for i := range settlements {
		errs[i] = t.settle(&settlements[i])
	}
	return errs
}

func (t *turn) settle(s *core.Settlement) error {
	q, e := t.queue, t.holder(s.Token)
	if e == nil {
		return lost(t.Policy)
	}
	switch s.Outcome {
	case core.Complete:
		q.remove(e)
	case core.Abandon:
		q.override(e, s.Properties)
		t.unlock(q, e, true)
	case core.Release:
		t.unlock(q, e, false)
	case core.Defer:
		q.override(e, s.Properties)
		q.move(e, deferred)
	case core.DeadLetterOutcome:
		if q.ref.Sub.IsDeadLetter() {
			return core.NotAllowed
		}
		t.deadLetter(q, e, s.Properties)
	default:
		return fmt.Errorf("settle with unknown outcome %d: %w", s.Outcome, core.InvalidArgument)
	}
	return nil
}

// lost is what a lock that has ended is answered.
func lost(p core.Policy) error {
	if p.Sessions {
		return core.SessionLockLost
	}
	return core.LockLost
}
