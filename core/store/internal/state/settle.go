package state

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

// Settle ends locks, one after the other.
func (p *handle) Settle(ctx context.Context, settlements []core.Settlement) []error {
	errs := make([]error, len(settlements))
	t, _, ok := p.enterOnce(nil)
	if !ok {
		for i := range errs {
			errs[i] = lost(p.Policy, nil)
		}
		return errs
	}
	for i := range settlements {
		errs[i] = t.settle(&settlements[i])
	}
	t.leave()
	err := t.wait(ctx)
	stopped := p.stopped()
	for i := range errs {
		if errs[i] != nil && stopped != nil { // the lock may be lost in memory only
			errs[i] = fmt.Errorf("settle at %s/%d: %w", p.Entity, p.Index, stopped)
		} else if err != nil {
			errs[i] = fmt.Errorf("settle at %s/%d: %w", p.Entity, p.Index, err)
		}
	}
	return errs
}

func (t *txn) settle(s *core.Settlement) error {
	q := t.queue
	e, err := t.settleable(s)
	if err != nil {
		return err
	}
	switch s.Outcome {
	case core.Complete:
		t.note(core.EventCompleted, q, e)
		q.remove(e)
	case core.Abandon:
		q.override(e, s.Properties)
		t.abandon(q, e, s.Backoff)
	case core.Release:
		t.note(core.EventReleased, q, e)
		t.unlock(q, e, "")
	case core.Defer:
		q.override(e, s.Properties)
		if t.hasFailed(q, e.failures+1) {
			t.unlock(q, e, core.EventDeferred)
			break
		}
		q.countDelivery(e)
		t.noteFailure(core.EventDeferred, q, e)
		q.move(e, deferred)
	case core.DeadLetterOutcome:
		t.deadLetter(q, e, s.Properties, "")
	}
	return nil
}

// settleable returns the entry whose lock can end as s says, or why it cannot.
func (t *txn) settleable(s *core.Settlement) (*entry, error) {
	under := s.Session
	if t.Sessions && under != nil && t.holds(under) == nil {
		return nil, core.SessionLockLost
	}
	e := t.holder(s.Token)
	if e == nil || t.Sessions && under != nil && e.nonce != under.Nonce {
		return nil, lost(t.Policy, under)
	}
	return e, t.allows(s)
}

// allows reports why a lock that is held cannot end so.
func (t *txn) allows(s *core.Settlement) error {
	switch {
	case s.Outcome > core.Release:
		return fmt.Errorf("settle with unknown outcome %d: %w", s.Outcome, core.InvalidArgument)
	case s.Outcome == core.DeadLetterOutcome && t.Ref.Sub.IsDeadLetter():
		return core.NotAllowed
	case s.Outcome == core.Abandon && t.Sessions && !s.Backoff.IsZero():
		return fmt.Errorf("put a message of a session off: %w", core.InvalidArgument)
	}
	return nil
}

// abandon ends the lock of e after a failed delivery. With a backoff another lock
// takes its place, whose nonce no receiver is told.
func (t *txn) abandon(q *queue, e *entry, b core.Backoff) {
	if b.IsZero() || t.hasFailed(q, e.failures+1) {
		t.unlock(q, e, core.EventAbandoned)
		return
	}
	failures := int(e.failures)
	if q.ref.Sub.IsDeadLetter() { // what it failed there does not count here
		failures = 0
	}
	e.nonce, e.until = core.NewNonce(), t.now+b.After(failures).Milliseconds()
	e.delayed = true
	q.move(e, e.state)
	if t.History.Max > 0 {
		t.write(q, core.Event{Kind: core.EventPostponed, Number: t.number(e.n), Until: instant(e.until)})
	}
	t.wakeReceivers(q) // a waiting receiver must learn when to look again
}

// lost is what a lock that has ended is answered. under is the lock of a session
// that still stands, nil for none that is known.
func lost(p core.Policy, under *core.SessionLock) error {
	if p.Sessions && under == nil {
		return core.SessionLockLost
	}
	return core.LockLost
}
