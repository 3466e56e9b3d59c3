package broker

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// sessionLookInterval is how often a session with credit looks for messages, in case the
	// store's doorbell has been missed.
	sessionLookInterval = 10 * time.Second
	// releaseTimeout bounds the release of a session. If it fails, the lock expires.
	releaseTimeout = 5 * time.Second
	// settleTimeout bounds how long a closed session waits for the settlements under way.
	settleTimeout = 30 * time.Second
	// expiryGrace is how long after the end of a lock its client is told, unless another client
	// waits for the session: clients whose work takes as long as the lock close the session
	// themselves within that time.
	expiryGrace = 300 * time.Millisecond
)

// session implements core.Session. One goroutine (run) calls the store and runs the callbacks, so
// messages are delivered strictly in order.
type session struct {
	hub   *sessionHub
	o     core.SessionOptions
	by    core.Party // for the history, if there is one
	lock  core.SessionLock
	woken chan struct{} // something changed; holds at most one
	done  chan struct{} // closed when the session has been released

	mu          sync.Mutex
	until       time.Time       // end of the lock, by the store's clock
	renewing    int             // Renew calls under way, which may have moved until
	credit      int             // unspent
	poller                      // of looks for messages
	checks      bool            // ask the store whether the lock still stands, even without credit
	purges      int             // Purge calls under way; no messages are locked meanwhile
	lookAt      time.Time       // when to look without the doorbell; zero: unknown
	drained     []func(int)     // callbacks of Drains under way
	targetCalls uint64          // the count of looks that the Drains wait for
	ended       error           // why the broker closed it
	expired     bool            // ended because the lock's time was over
	endsNow     bool            // do not wait for expiryGrace
	closed      bool            // Close or CloseAfter was called
	settled     <-chan struct{} // the release waits for its end; nil: for nothing

	delivering   bool      // the Deliver callback runs
	deliverEnded sync.Cond // a Deliver callback has ended
}

func newSession(h *sessionHub, l core.SessionLock, o core.SessionOptions, by core.Party) *session {
	s := &session{
		hub: h, o: o, by: by, lock: l, until: l.Until, poller: poller{ready: true},
		woken: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.deliverEnded.L = &s.mu
	return s
}

// ID implements core.Session.
func (s *session) ID() string { return s.lock.ID }

// Lock implements core.Session.
func (s *session) Lock() core.SessionLock { return s.lock }

// LockedUntil implements core.Session.
func (s *session) LockedUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// AddCredit implements core.Receiver.
func (s *session) AddCredit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && !s.isOver() {
		s.credit += n
		s.signal()
	}
}

// Drain implements core.Receiver.
func (s *session) Drain(drained func(unspent int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() { // its goroutine may have ended
		s.hub.e.b.callback([]func(error){func(error) { drained(0) }}, nil)
		return
	}
	s.drained = append(s.drained, drained)
	s.targetCalls = s.ahead()
	s.signal()
}

// Close implements core.Receiver. The goroutine releases the session at once; a call that accepts
// it here meanwhile waits for that.
func (s *session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
	if s.delivering && isInDeliver() {
		return
	}
	for s.delivering {
		s.deliverEnded.Wait()
	}
}

// CloseAfter implements core.Session. If settled is not closed in time, the session is released
// without it.
func (s *session) CloseAfter(settled <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed, s.settled = true, settled
		s.signal()
	}
}

// awaitSettled waits for the settlements that CloseAfter speaks of.
func (s *session) awaitSettled(settled <-chan struct{}) {
	if settled == nil {
		return
	}
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	case <-s.hub.e.b.base.Done():
	}
}

// isOver reports whether the session takes no more calls. s.mu is held.
func (s *session) isOver() bool { return s.closed || s.ended != nil }

// end closes the session with an error, at once.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	s.endsNow = true
	s.signal()
}

// endNow ends the wait for expiryGrace.
func (s *session) endNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endsNow = true
	s.signal()
}

// wakeByName is called for a doorbell that names the session: there may be messages, or another
// gateway's receiver has taken the session over.
func (s *session) wakeByName() {
	s.wake()
	if s.lock.Mode == core.NonExclusive {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.checks = true
		s.signal()
	}
}

// wake says that there may be messages.
func (s *session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poller.wake() {
		s.signal()
	}
}

func (s *session) signal() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// run works until the session is over, and then releases it.
func (s *session) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n, look, pause, open := s.next()
		switch {
		case !open:
			s.finish()
			return
		case look:
			s.lockMessages(n)
		default:
			timer.Reset(pause)
			select {
			case <-s.woken:
			case <-timer.C:
			}
		}
	}
}

// next decides what to do: look for n messages, or pause. It answers Drains that have nothing more
// to wait for.
func (s *session) next() (n int, look bool, pause time.Duration, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := s.hub.e.b.store.Now()
		if s.renewing == 0 && !now.Before(s.until) && s.ended == nil {
			s.ended, s.expired = errSessionLost, true
		}
		if s.isOver() {
			return 0, false, 0, false
		}
		if !s.lookAt.IsZero() && !now.Before(s.lookAt) {
			s.ready, s.lookAt = true, time.Time{}
		}
		if len(s.drained) > 0 && (s.credit == 0 || !s.ready || s.calls >= s.targetCalls) {
			s.drain()
			continue
		}
		if s.checks || s.credit > 0 && s.ready && s.purges == 0 {
			s.begin()
			s.checks = false
			n := min(s.credit, maxLock)
			if s.purges > 0 {
				n = 0
			}
			return n, true, 0, true
		}
		return 0, false, s.pause(now), true
	}
}

// drain runs the callbacks of Drains. s.mu is held, and released during callbacks.
func (s *session) drain() {
	calls, unspent := s.drained, s.credit
	s.drained, s.credit = nil, 0
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, drained := range calls {
		drained(unspent)
		unspent = 0
	}
}

// pause is how long until something is due. s.mu is held.
func (s *session) pause(now time.Time) time.Duration {
	pause := s.until.Sub(now)
	if s.renewing > 0 {
		pause = sessionLookInterval // or until the renewal has ended
	}
	if s.credit > 0 && !s.lookAt.IsZero() {
		pause = min(pause, s.lookAt.Sub(now))
	}
	return max(pause, time.Millisecond)
}

// lockMessages locks up to n messages and delivers them.
func (s *session) lockMessages(n int) {
	e := s.hub.e
	e.b.barrier.enter()
	defer e.b.barrier.leave()
	ctx := e.b.base
	_, _ = e.b.refresh(ctx, e) // if the entity is gone, this has ended the session
	p := s.partition()
	ds, next, err := e.b.store.LockInSession(ctx, p, s.lock, n)
	locked := len(ds)
	if s.o.Mode == core.ReceiveAndDelete && locked > 0 {
		ds = s.remove(p, ds)
	}
	s.mu.Lock()
	s.noteLook(err, locked == n)
	s.credit -= len(ds)
	open := !s.isOver()
	s.delivering = open && len(ds) > 0
	s.mu.Unlock()
	if !next.IsZero() && open {
		s.hub.due(s.lock.Index, next)
	}
	switch {
	case len(ds) == 0:
	case open:
		e.traffic.queues[core.Main].delivered.Add(int64(len(ds)))
		e.noteDelivered(core.Main, ds, s.by)
		callDeliver(s.o.Deliver, ds)
		s.mu.Lock()
		s.delivering = false
		s.deliverEnded.Broadcast()
		s.mu.Unlock()
	case s.o.Mode == core.PeekLock && s.lock.Mode == core.NonExclusive: // for the next holder
		e.settleAll(e.b.base, core.Main, ds, core.Release)
	case s.o.Mode == core.ReceiveAndDelete:
		e.b.log.Info("messages were removed for a session receiver that closed meanwhile", "entity", e.key, "count", len(ds))
	}
}

// noteLook notes the result of a look and when to look again. s.mu is held.
func (s *session) noteLook(err error, full bool) {
	e := s.hub.e
	if core.CodeOf(err) == core.SessionLockLost {
		s.poller.end(false, nil)
		if s.ended == nil {
			s.ended = errSessionLost
		}
		return
	}
	if began, _ := s.poller.end(full, err); began {
		e.b.log.Warn("lock messages of a session: the partition does not answer; trying again", "entity", e.key, "partition", s.lock.Index, "err", err)
	}
	pause := sessionLookInterval
	if err != nil {
		pause = s.backoff
	}
	s.lookAt = e.b.store.Now().Add(pause)
}

// remove completes messages and returns those that the store has removed. It releases the others.
func (s *session) remove(p core.Partition, ds []core.Delivery) []core.Delivery {
	e := s.hub.e
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i] = core.Settlement{Token: ds[i].LockToken}
	}
	errs := e.b.store.Settle(e.b.base, p, settlements)
	e.traffic.queues[core.Main].settle(settlements, errs)
	gone := ds[:0]
	var kept []core.Delivery
	for i, err := range errs {
		if err != nil {
			kept = append(kept, ds[i])
			continue
		}
		d := ds[i]
		d.LockToken, d.LockedUntil = core.LockToken{}, time.Time{}
		gone = append(gone, d)
	}
	if len(kept) > 0 {
		e.settleAll(e.b.base, core.Main, kept, core.Release)
	}
	return gone
}

// awaitGrace waits for expiryGrace after the end of the lock.
func (s *session) awaitGrace() {
	timer := time.NewTimer(expiryGrace)
	defer timer.Stop()
	for {
		s.mu.Lock()
		waits := s.expired && !s.endsNow && !s.closed
		s.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-s.woken:
		case <-timer.C:
			return
		}
	}
}

// finish releases the session, unless its lock has ended, and runs the remaining callbacks.
func (s *session) finish() {
	s.mu.Lock()
	ended, drained, unspent, settled := s.ended, s.drained, s.credit, s.settled
	s.drained, s.credit = nil, 0
	s.mu.Unlock()
	s.awaitSettled(settled)
	if core.CodeOf(ended) != core.SessionLockLost {
		s.hub.release(s.lock)
	}
	for _, f := range drained {
		f(unspent)
		unspent = 0
	}
	s.awaitGrace()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if ended != nil && !closed && s.o.Closed != nil {
		s.o.Closed(ended)
	}
	s.hub.remove(s)
	close(s.done)
}

// partition is the session's partition, with the current policy.
func (s *session) partition() core.Partition {
	return s.hub.e.current.Load().partitions[core.Main][s.lock.Index]
}

// call makes one call to the store on behalf of the holder.
func (s *session) call(f func(core.Partition) error) error {
	s.mu.Lock()
	over := s.isOver()
	s.mu.Unlock()
	if over {
		return errSessionLost
	}
	e := s.hub.e
	e.use()
	err := f(s.partition())
	if core.CodeOf(err) == core.SessionLockLost {
		s.end(errSessionLost)
	}
	return e.b.refusal(err, &e.current.Load().Entity)
}

// Renew implements core.Session.
func (s *session) Renew(ctx context.Context) (until time.Time, err error) {
	s.mu.Lock()
	s.renewing++
	s.mu.Unlock()
	err = s.call(func(p core.Partition) (err error) {
		until, err = s.hub.e.b.store.RenewSession(ctx, p, s.lock)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing--
	if err == nil && until.After(s.until) {
		s.until = until
	}
	s.signal()
	return until, err
}

// State implements core.Session.
func (s *session) State(ctx context.Context) (state []byte, err error) {
	err = s.call(func(p core.Partition) (err error) {
		state, err = s.hub.e.b.store.SessionState(ctx, p, s.lock)
		return err
	})
	return state, err
}

// SetState implements core.Session. A state may be as large as a message.
func (s *session) SetState(ctx context.Context, state []byte) error {
	if err := s.hub.e.current.Load().checkState(state); err != nil {
		return err
	}
	return s.call(func(p core.Partition) error {
		return s.hub.e.b.store.SetSessionState(ctx, p, s.lock, state)
	})
}

// checkState refuses a state that is larger than a message may be.
func (v *view) checkState(state []byte) error {
	if int64(len(state)) > v.maxMessage {
		return core.Refuse(core.TooLarge, "The session state has %d bytes, which exceeds the limit of %d bytes for '%s'.", len(state), v.maxMessage, v.Name)
	}
	return nil
}

// ReceiveDeferred implements core.Session.
func (s *session) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	for i := range numbers {
		if partitionOfNumber(&numbers[i]) != s.lock.Index {
			return nil, errNoNumber
		}
	}
	var found []core.Delivery
	err := s.call(func(p core.Partition) (err error) {
		found, err = s.hub.e.b.store.LockDeferred(ctx, p, numbers, &s.lock)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.hub.e.traffic.queues[core.Main].delivered.Add(int64(len(found)))
	s.hub.e.noteDelivered(core.Main, found, s.by)
	if mode == core.ReceiveAndDelete {
		return s.hub.e.removeLocked(ctx, core.Main, found)
	}
	return found, nil
}

const (
	// sessionScan bounds how many messages of the partition a Peek in a session reads,
	// sessionScanBytes how many bytes they may have.
	sessionScan      = 20_000
	sessionScanBytes = 64 << 20
)

// Peek implements core.Session. It reads through the partition, which holds other sessions, too.
// The read is bounded: messages far behind are found by a Peek from a later number.
func (s *session) Peek(ctx context.Context, from int64, limit int) ([]core.Delivery, error) {
	index, n := core.SplitSequenceNumber(max(from, 0))
	switch {
	case index < s.lock.Index:
		n = 0
	case index > s.lock.Index:
		return nil, nil
	}
	var found []core.Delivery
	key := s.lock.Key()
	err := s.call(func(p core.Partition) error {
		size, scanned := 0, 0
		for looked := 0; len(found) < limit && looked < sessionScan && scanned < sessionScanBytes; {
			ds, err := s.hub.e.b.store.Peek(ctx, p, n, lastPeek)
			if err != nil && len(found) > 0 {
				return nil // the next Peek reports it
			}
			for i := range ds {
				scanned += ds[i].Size()
				if ds[i].SessionKey() != key {
					continue
				}
				found = append(found, ds[i])
				if size += ds[i].Size(); size >= peekBytes || len(found) == limit {
					return nil
				}
			}
			if err != nil || len(ds) < lastPeek {
				return err
			}
			looked += len(ds)
			_, n = core.SplitSequenceNumber(ds[len(ds)-1].SequenceNumber)
			n++
		}
		return nil
	})
	return found, err
}

// Purge implements core.Session. Messages that are too young stay locked until it ends. No other
// messages are delivered meanwhile: they would come out of order.
func (s *session) Purge(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	e := s.hub.e
	s.countPurge(1)
	defer s.countPurge(-1)
	err = s.call(func(p core.Partition) (err error) {
		lock := func(n int) ([]core.Delivery, error) {
			ds, _, err := e.b.store.LockInSession(ctx, p, s.lock, n)
			return ds, err
		}
		removed, err = e.purge(ctx, p, &s.lock, lock, before, e.b.options.Limits.Purge(min(limit, maxPurge)), s.by)
		return err
	})
	if removed > 0 {
		return removed, nil // the next call reports the error
	}
	return 0, err
}

// countPurge counts the Purge calls under way.
func (s *session) countPurge(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purges += n
	s.ready = true
	s.signal()
}
