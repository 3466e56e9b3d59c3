package state

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *handle) Settle(ctx context.Context, settlements []core.Settlement) []error {
	errs := make([]error, len(settlements))
	t, _, ok := p.enterOnce(nil)
	if !ok {
		for i := range errs {
			if errs[i] = lost(p.Policy, nil); settlements[i].Outcome == core.Activate {
				errs[i] = core.MessageNotFound
			}
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
		if errs[i] != nil && stopped != nil { // the journal has failed, so these locks may still be held after a restart
			errs[i] = fmt.Errorf("cannot settle a message of %v: %w", p.Ref, stopped)
		} else if err != nil {
			errs[i] = fmt.Errorf("cannot settle a message of %v: %w", p.Ref, err)
		}
	}
	return errs
}

func (t *txn) settle(s *core.Settlement) error {
	if s.Outcome == core.Activate && s.Token.Nonce() == 0 {
		return t.activate(s)
	}
	e, err := t.settleable(s)
	if err == nil {
		err = t.checkProperties(e, s)
	}
	if err == nil {
		t.carryOut(e, s)
	}
	return err
}

// carryOut ends the lock of e as s says.
func (t *txn) carryOut(e *entry, s *core.Settlement) {
	q := t.queue
	switch s.Outcome {
	case core.Complete:
		t.note(core.EventCompleted, q, e)
		q.remove(e)
	case core.Abandon:
		q.override(e, s.Properties)
		if s.Backoff.IsZero() || t.hasFailed(q, e.failures+1) {
			t.unlock(q, e, core.EventAbandoned)
			break
		}
		t.delay(q, e, s.Backoff, core.NewNonce())
	case core.Release:
		if s.Backoff.IsZero() {
			t.note(core.EventReleased, q, e)
			t.unlock(q, e, "")
			break
		}
		t.delay(q, e, s.Backoff, 0)
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
}

func (t *txn) activate(s *core.Settlement) error {
	q, at := t.queue, core.Millis(s.At)
	e := t.inState(s.Token.SequenceNumber(), locked, lockedDeferred, deferred, scheduled)
	switch {
	case e == nil || at != 0 && e.state != scheduled:
		return core.MessageNotFound
	case e.state == scheduled && at > t.now:
		e.until = at
		q.move(e, scheduled)
		if t.History.Max > 0 {
			t.write(q, core.Event{Kind: core.EventScheduled, Number: t.number(e.n), Until: core.Instant(at)})
		}
		t.wakeReceivers(q) // a waiting receiver must learn the new due time
	case e.state == scheduled:
		t.becomeDue(q, e)
	case e.sessionful && e.state.IsLocked() && !e.delayed:
		return core.SessionLocked
	default:
		paused := e.session
		if !e.pauses() {
			paused = nil
		}
		t.note(core.EventReleased, q, e)
		t.makeAvailable(q, e)
		if paused != nil && paused.pauses == 0 {
			t.wakeSession(q, paused)
		}
	}
	return nil
}

func (t *txn) settleable(s *core.Settlement) (*entry, error) {
	under := s.Session
	if t.Sessions && under != nil && t.holds(under) == nil {
		return nil, core.SessionLockLost
	}
	e := t.holder(s.Token)
	if e == nil || t.Sessions && under != nil && e.nonce != under.Nonce {
		return nil, lost(t.Policy, under)
	}
	if err := t.allows(s); err != nil {
		return nil, err
	}
	return e, e.allows(s)
}

// allows returns TooLarge if settlements, with s, would set more than MaxHeaderBytes of properties
// on e. Dead-lettering is allowed whatever was set before; so a dead letter may have more.
func (e *entry) allows(s *core.Settlement) error {
	limit, set := core.MaxHeaderBytes, s.Properties
	switch {
	case !s.Sets():
		return nil
	case s.Outcome != core.DeadLetterOutcome && e.more != nil:
		if e.more.died != 0 {
			limit *= 3 // up to two thirds were set before and by the dead-lettering
		}
		if len(e.more.overlay.Encoded())+len(set.Encoded()) > limit {
			set = e.more.overlay.Merge(set)
		}
	}
	if len(set.Encoded()) > limit {
		return core.TooLarge
	}
	return nil
}

// checkProperties returns QuotaExceeded if the partition is full and s makes the properties that
// settlements have set on e larger.
func (t *txn) checkProperties(e *entry, s *core.Settlement) error {
	full := core.CheckSize(t.bytes, t.MaxBytes)
	if full == nil || !s.Sets() {
		return nil
	}
	var before core.Properties
	if e.more != nil {
		before = e.more.overlay
	}
	room := len(before.Encoded())
	if s.Outcome == core.DeadLetterOutcome {
		room += core.MaxReasonBytes
	}
	if len(before.Merge(s.Properties).Encoded()) <= room {
		return nil
	}
	return full
}

func (t *txn) allows(s *core.Settlement) error {
	switch {
	case s.Outcome > core.Release:
		return fmt.Errorf("cannot settle a message with the unknown outcome %d: %w", s.Outcome, core.InvalidArgument)
	case s.Outcome == core.DeadLetterOutcome && t.Ref.Sub.IsDeadLetter():
		return core.NotAllowed
	}
	return nil
}

// delay locks e for b, without a holder. If nonce is not 0, the lock's end counts as a failure.
func (t *txn) delay(q *queue, e *entry, b core.Backoff, nonce uint64) {
	failures := int(e.failures)
	if q.ref.Sub.IsDeadLetter() { // failed deliveries of dead letters are not counted
		failures = 0
	}
	q.delay(e, nonce, t.now+b.After(failures).Milliseconds())
	if t.History.Max > 0 {
		t.write(q, core.Event{Kind: core.EventPostponed, Number: t.number(e.n), Until: core.Instant(e.until)})
	}
	t.wakeReceivers(q) // waiting receivers must learn when the delay ends
	if e.session != nil {
		t.wakeHolder(q, e.session)
	}
}

// lost returns the error for a lost lock of a message. In an entity with sessions, under is the
// session's lock, or nil if that lock has ended too.
func lost(p core.Policy, under *core.SessionLock) error {
	if p.Sessions && under == nil {
		return core.SessionLockLost
	}
	return core.LockLost
}

// unlock ends the lock of e. failure says how the delivery failed, or is "" if it did not. Except
// in dead-letter queues, a failed delivery is counted, and at MaxDeliveryCount the message becomes
// a dead letter. A deferred message stays deferred, and expires only when a receiver requests it.
// Any other message becomes available, or expires if its time to live has ended.
func (t *txn) unlock(q *queue, e *entry, failure core.EventKind) {
	if failure != "" {
		q.countDelivery(e)
		t.noteFailure(failure, q, e)
		if t.hasFailed(q, e.failures) {
			t.deadLetter(q, e, core.ReasonProperties(core.ReasonMaxDeliveryCount, fmt.Sprintf(core.DescriptionMaxDeliveryCount, e.failures)),
				core.ReasonMaxDeliveryCount)
			return
		}
	}
	if e.state == lockedDeferred {
		q.move(e, deferred)
		return
	}
	t.makeAvailable(q, e)
}

func (t *txn) makeAvailable(q *queue, e *entry) {
	if q.hasExpired(e, t.now) {
		t.expire(q, e)
		return
	}
	q.move(e, again)
	t.announce(q, e)
}

func (t *txn) hasFailed(q *queue, failures uint32) bool {
	return !q.ref.Sub.IsDeadLetter() && t.MaxDeliveryCount > 0 && int(failures) >= t.MaxDeliveryCount
}

func (t *txn) expire(q *queue, e *entry) {
	if t.DeadLetterExpired {
		t.deadLetter(q, e, core.ReasonProperties(core.ReasonExpired, core.DescriptionExpired), core.ReasonExpired)
	} else {
		t.note(core.EventExpired, q, e)
		q.remove(e)
	}
}

// deadLetter makes e a dead letter, without a session, and changes its properties as over says.
// reason is "" if a receiver asked for this.
func (t *txn) deadLetter(q *queue, e *entry, over core.Properties, reason string) {
	q.override(e, over)
	q.remove(e)
	dead := t.home.queue(q.ref.Sub.DeadLetters())
	d := e.successor()
	d.origin, d.enqueued, d.expires, d.failures = e.origin, e.enqueued, e.expires, e.failures
	d.change(func(more *extra) { more.died = t.now })
	dead.append(d)
	t.noteMove(core.EventDeadLettered, q, e, t.number(dead.last), reason)
	t.wakeReceivers(dead)
}

// successor returns an entry for the same message, without broker properties.
func (e *entry) successor() *entry {
	return &entry{message: e.message, ref: e.ref, more: e.more, size: e.size, record: e.record, noted: e.noted}
}
