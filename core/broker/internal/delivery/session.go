package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// A session with credit looks for messages every sessionLookInterval, in case it missed a
	// notification from the store.
	sessionLookInterval = 10 * time.Second
	// releaseTimeout limits the call that releases a session. If it fails, the lock expires.
	releaseTimeout = 5 * time.Second
	SettleTimeout  = 30 * time.Second
)

// Session implements core.Session. Only one goroutine, run, calls the store for messages and runs
// the callbacks, so that messages are delivered in order.
type Session struct {
	hub   *sessionHub
	o     core.SessionOptions
	by    core.Party
	link  link
	lock  core.SessionLock
	woken wake.Signal
	done  chan struct{}

	mu       sync.Mutex
	until    time.Time // end of the lock for the client, by the store's clock
	renewing int       // Renew calls in flight, which may have extended the lock
	credit   int
	bytes    int64 // credit in bytes; negative if the last delivery exceeded it
	poller
	checks      bool // run must ask the store whether the lock still holds, even without credit
	purges      int
	lookAt      time.Time // when to look for messages even without a notification; zero: unknown
	drained     []func(int)
	targetCalls uint64
	ended       error
	closed      bool
	settled     <-chan struct{} // the release waits until this is closed; nil: it does not wait

	delivering   bool
	deliverEnded sync.Cond
}

func (s *Session) ID() string { return s.lock.ID }

func (s *Session) EntityID() string { return s.hub.e.View().Root() }

func (s *Session) Lock() core.SessionLock { return s.lock }

func (s *Session) LockedUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

func (s *Session) AddCredit(n int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOver() {
		s.credit += n
		s.bytes += bytes
		s.woken.Set()
	}
}

// s.mu is held.
func (s *Session) isWilling() bool { return s.credit > 0 && s.bytes > 0 }

func (s *Session) Drain(drained func(unspent int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() { // run may have ended
		s.hub.e.call(func() { drained(0) })
		return
	}
	s.drained = append(s.drained, drained)
	s.targetCalls = s.ahead()
	s.woken.Set()
}

// Close implements core.Receiver. Then the goroutine of run releases the session. A call that
// accepts the session at this gateway waits for the release.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.woken.Set()
	for s.delivering {
		s.deliverEnded.Wait()
	}
}

// CloseAfter is Close, but the session is released when settled is closed, or after SettleTimeout.
func (s *Session) CloseAfter(settled <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed, s.settled = true, settled
		s.woken.Set()
	}
}

func (s *Session) Released() <-chan struct{} { return s.done }

// s.mu is held.
func (s *Session) isOver() bool { return s.closed || s.ended != nil }

func (s *Session) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	s.woken.Set()
}

// A notification for this session can also mean that another gateway has taken it over.
func (s *Session) wakeByName() {
	s.wake()
	if s.lock.Mode == core.NonExclusive {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.checks = true
		s.woken.Set()
	}
}

func (s *Session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poller.wake() {
		s.woken.Set()
	}
}

func (s *Session) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		most, look, pause, open := s.next()
		switch {
		case !open:
			s.finish()
			return
		case look:
			s.lockMessages(most)
		default:
			timer.Reset(pause)
			select {
			case <-s.woken:
			case <-timer.C:
			}
		}
	}
}

// next returns what run must do: end, if open is false; lock messages up to most, if look is true;
// otherwise pause. It also answers the Drains that need not wait for a lock call.
func (s *Session) next() (most core.Most, look bool, pause time.Duration, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := s.hub.e.Now()
		if s.renewing == 0 && !now.Before(s.until.Add(core.SessionGrace)) && s.ended == nil {
			s.ended = entity.ErrSessionLost
		}
		if s.isOver() {
			return most, false, 0, false
		}
		if !s.lookAt.IsZero() && !now.Before(s.lookAt) {
			s.ready, s.lookAt = true, time.Time{}
		}
		if len(s.drained) > 0 && (!s.isWilling() || !s.ready || s.calls >= s.targetCalls) {
			s.drain()
			continue
		}
		if takes := s.isWilling() && s.purges == 0; s.checks || takes && s.ready {
			s.begin()
			s.checks = false
			if takes {
				most = core.Most{Messages: min(s.credit, MaxLock), Bytes: min(s.bytes, MaxLockBytes)}
			}
			return most, true, 0, true
		}
		return most, false, s.pause(now), true
	}
}

// s.mu is held, and released during callbacks.
func (s *Session) drain() {
	calls, unspent := s.drained, s.credit
	s.drained, s.credit, s.bytes = nil, 0, 0
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, drained := range calls {
		drained(unspent)
		unspent = 0
	}
}

// pause returns how long to wait until something is due. s.mu is held.
func (s *Session) pause(now time.Time) time.Duration {
	pause := s.until.Add(core.SessionGrace).Sub(now)
	if s.renewing > 0 {
		pause = sessionLookInterval // a successful renewal extends s.until; its end wakes run
	}
	if s.isWilling() && !s.lookAt.IsZero() {
		pause = min(pause, s.lookAt.Sub(now))
	}
	return max(pause, time.Millisecond)
}

func (s *Session) lockMessages(most core.Most) {
	e := s.hub.e
	e.Barrier.Enter()
	defer e.Barrier.Leave()
	ctx := e.Base
	e.Refresh(ctx) // if the entity was deleted, this has ended the session
	allowed, again, err := e.admission.take(ctx, most.Messages, true)
	most.Messages = allowed
	var ds []core.Delivery
	var next time.Time
	p := s.partition()
	if err == nil && (again.IsZero() || s.lock.Mode == core.NonExclusive) { // even if no message is allowed: a NonExclusive lock may have been taken over
		ds, next, err = p.Lock(ctx, core.LockRequest{Most: most, Session: &s.lock})
		e.admission.locked(allowed, ds, &s.link)
	}
	locked, more := len(ds), again.IsZero() && most.Left(ds, next, e.Now)
	if s.o.Mode == core.ReceiveAndDelete && locked > 0 {
		ds, _ = e.RemoveLocked(ctx, core.Main, ds)
	}
	s.mu.Lock()
	s.noteLook(err, more)
	if !again.IsZero() {
		s.lookAt = again
	}
	s.credit -= len(ds)
	s.bytes -= int64(core.SizeOf(ds))
	open := !s.isOver()
	s.delivering = open && len(ds) > 0
	s.mu.Unlock()
	if !next.IsZero() && !more && open {
		s.hub.mu.Lock()
		s.hub.wakeHoldersAt(s.hub.finders[s.lock.Index], next)
		s.hub.mu.Unlock()
	}
	switch {
	case len(ds) == 0:
	case open:
		e.traffic.Queues[core.Main].Delivered.Add(int64(len(ds)))
		e.audit.Delivered(e.View(), core.Main, ds, s.by)
		s.o.Deliver(ds)
		s.mu.Lock()
		s.delivering = false
		s.deliverEnded.Broadcast()
		s.mu.Unlock()
	case s.o.Mode == core.PeekLock && s.lock.Mode == core.NonExclusive: // otherwise the messages would stay locked for the next holder of the lock
		e.SettleAll(e.Base, core.Main, ds, core.Release)
	case s.o.Mode == core.ReceiveAndDelete:
		e.Log.Info("messages are lost, because a receive-and-delete session receiver closed before it got them", "entity", e.View().Name, "count", len(ds))
	}
}

// noteLook records the result of a search for messages, and sets when to search again. s.mu is
// held.
func (s *Session) noteLook(err error, more bool) {
	e := s.hub.e
	if core.CodeOf(err) == core.SessionLockLost {
		s.poller.end(false, nil)
		if s.ended == nil {
			s.ended = entity.ErrSessionLost
		}
		return
	}
	if began, _ := s.poller.end(more, err); began {
		e.Log.Warn("cannot lock the messages of a session, because the partition does not answer; trying again", "entity", e.View().Name, "partition", s.lock.Index, "err", err)
	}
	pause := sessionLookInterval
	if err != nil {
		pause = s.backoff
	}
	s.lookAt = e.Now().Add(pause)
}

func (s *Session) finish() {
	s.mu.Lock()
	ended, drained, unspent, settled := s.ended, s.drained, s.credit, s.settled
	lost := core.CodeOf(ended) == core.SessionLockLost
	failed := lost && !s.closed
	s.drained, s.credit = nil, 0
	s.mu.Unlock()
	if settled != nil {
		select {
		case <-settled:
		case <-time.After(SettleTimeout):
		case <-s.hub.e.Base.Done():
		}
	}
	if !lost {
		s.hub.release(s.lock)
	}
	s.hub.e.Circuit().end(&s.link, failed)
	for _, f := range drained {
		f(unspent)
		unspent = 0
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if ended != nil && !closed && s.o.Closed != nil {
		s.o.Closed(ended)
	}
	s.hub.remove(s)
	close(s.done)
}

func (s *Session) partition() core.Partition {
	return s.hub.e.View().Queues[core.Main][s.lock.Index]
}

// call makes one call to the store for the session's client, also after CloseAfter.
func (s *Session) call(f func(core.Partition) error) error {
	s.mu.Lock()
	over := s.ended != nil || s.closed && s.settled == nil
	s.mu.Unlock()
	if over {
		return entity.ErrSessionLost
	}
	e := s.hub.e
	e.Use()
	err := f(s.partition())
	if core.CodeOf(err) == core.SessionLockLost {
		s.End(entity.ErrSessionLost)
	}
	return e.Refusal(err, &e.View().Entity)
}

func (s *Session) Renew(ctx context.Context) (until time.Time, err error) {
	s.mu.Lock()
	s.renewing++
	s.mu.Unlock()
	err = s.call(func(p core.Partition) (err error) {
		until, err = p.RenewSession(ctx, s.lock)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing--
	if err == nil && until.After(s.until) {
		s.until = until
	}
	s.woken.Set()
	return until, err
}

func (s *Session) State(ctx context.Context) (state []byte, err error) {
	err = s.call(func(p core.Partition) (err error) {
		state, err = p.SessionState(ctx, s.lock)
		return err
	})
	return state, err
}

// SetState implements core.Session. A state may be as large as a message.
func (s *Session) SetState(ctx context.Context, state []byte) error {
	if err := s.hub.e.View().CheckState(state); err != nil {
		return err
	}
	return s.call(func(p core.Partition) error {
		p, err := s.hub.e.WithQuota(ctx, p)
		if err != nil {
			return err
		}
		return p.SetSessionState(ctx, s.lock, state)
	})
}

func (s *Session) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	for i := range numbers {
		if entity.PartitionOfNumber(&numbers[i]) != s.lock.Index {
			return nil, entity.ErrNoNumber
		}
	}
	var found []core.Delivery
	err := s.call(func(p core.Partition) (err error) {
		found, _, err = p.Lock(ctx, core.LockRequest{Numbers: numbers, Deferred: true, Session: &s.lock})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.hub.e.traffic.Queues[core.Main].Delivered.Add(int64(len(found)))
	s.hub.e.audit.Delivered(s.hub.e.View(), core.Main, found, s.by)
	if mode == core.ReceiveAndDelete {
		return s.hub.e.RemoveLocked(ctx, core.Main, found)
	}
	return found, nil
}

func (s *Session) Peek(ctx context.Context, from int64, limit int) ([]core.Delivery, error) {
	index, n := core.SplitSequenceNumber(max(from, 0))
	switch {
	case index < s.lock.Index:
		n = 0
	case index > s.lock.Index:
		return nil, nil
	}
	var found []core.Delivery
	err := s.call(func(p core.Partition) (err error) {
		if found, err = Peek(ctx, p, core.PeekRequest{From: n, Session: s.lock.Key()}, nil, limit, PeekPage); len(found) > 0 {
			return nil // the next Peek returns the error
		}
		return err
	})
	return found, err
}

// Messages that are too new to be removed stay locked until Purge ends. Meanwhile no message is
// delivered, because it would be out of order.
func (s *Session) Purge(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	e := s.hub.e
	s.countPurge(1)
	defer s.countPurge(-1)
	err = s.call(func(p core.Partition) (err error) {
		removed, err = e.Purge(ctx, p, &s.lock, before, e.Limits.Purge(min(limit, MaxPurge)), s.by)
		return err
	})
	if removed > 0 {
		return removed, nil // the next call returns the error
	}
	return 0, err
}

func (s *Session) countPurge(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purges += n
	s.ready = true
	s.woken.Set()
}
