package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// sessionHub has the open sessions of one entity at this gateway. It gives sessions to the calls
// that wait for one, in the order of the calls. It asks a partition for one session at a time, and
// never for more sessions than calls wait for.
type sessionHub struct {
	e       *Entity
	finders []*sessionFinder
	unwatch []func()

	mu          sync.Mutex
	ended       error // once set, no call is admitted
	accepting   int
	held        map[core.SessionKey]*Session // by key: the open session that was opened last
	all         map[*Session]struct{}
	waiters     []*waiter
	finding     int
	nextFinder  int
	retireTimer *time.Timer
}

// e.mu is held.
func newSessionHub(e *Entity) *sessionHub {
	h := &sessionHub{e: e, held: map[core.SessionKey]*Session{}, all: map[*Session]struct{}{}}
	h.retireTimer = wake.Timer(h.retireIdle)
	v := e.View()
	for i := range v.Queues[core.Main] {
		f := &sessionFinder{hub: h, index: i}
		f.timer, f.holdersTimer = wake.Timer(f.endPause), wake.Timer(f.wakeHolders)
		h.finders = append(h.finders, f)
	}
	for i, s := range h.finders {
		h.unwatch = append(h.unwatch, v.Queues[core.Main][i].Watch(core.WakeFunc(func(key core.SessionKey) { h.wake(s, key) })))
	}
	return h
}

// enter admits an AcceptSession call, which must end with leave, or refuses it.
func (h *sessionHub) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all)+h.accepting >= MaxReceivers {
		return core.Refuse(core.QuotaExceeded, "'%s' has %d session receivers at this gateway, which is the limit: close some.", h.e.View().Name, MaxReceivers)
	}
	h.accepting++
	return nil
}

func (h *sessionHub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accepting--
	h.retireLater()
}

func (h *sessionHub) wake(s *sessionFinder, key core.SessionKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key == "" {
		s.wake()
		h.assign()
		h.wakeHoldersAt(s, time.Time{})
	} else if held := h.held[key]; held != nil {
		held.wakeByName()
	}
}

// Between two wake-ups of all open sessions of a partition, at least holderSpacing passes for each.
// Otherwise a thousand sessions would ask the store after each notification or due time that names
// no session.
const holderSpacing = time.Millisecond

// wakeHoldersAt makes the open sessions of a partition look for messages at the given time of the
// store's clock (zero: now), or soon after. h.mu is held.
func (h *sessionHub) wakeHoldersAt(s *sessionFinder, at time.Time) {
	if len(h.all) == 0 || h.ended != nil {
		return
	}
	now := h.e.Now()
	pause := time.Duration(len(h.all)) * holderSpacing
	if !at.IsZero() {
		pause = max(pause, at.Sub(now))
	}
	at = now.Add(pause)
	if now.Before(s.holdersDue) && !at.Before(s.holdersDue) {
		return
	}
	s.holdersDue = at
	s.holdersTimer.Reset(pause)
}

func (s *sessionFinder) wakeHolders() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.holdersDue = time.Time{}
	for held := range s.hub.all {
		if int(held.lock.Index) == s.index {
			held.wake()
		}
	}
}

// refusal returns the error with which a call is refused now, or nil. h.mu is held.
func (h *sessionHub) refusal() error {
	if v := h.e.View(); h.ended == nil && !v.Settings.Status.CanReceive() {
		return entity.Disabled(v.Name)
	}
	return h.ended
}

// If the session is still being closed at this gateway, acceptByID first waits for its release.
func (h *sessionHub) acceptByID(ctx context.Context, o *core.SessionOptions) (l core.SessionLock, err error) {
	id := o.ID
	e, key := h.e, core.KeyOfSession(id)
	h.mu.Lock()
	held := h.held[key]
	h.mu.Unlock()
	if held != nil && held.closing() {
		select {
		case <-held.done:
		case <-ctx.Done():
			return core.SessionLock{}, entity.ErrTimeout
		}
	}
	v := h.e.View()
	partitions := v.Queues[core.Main]
	p := partitions[core.PartitionOf(string(key), len(partitions))]
	l, _, _, err = p.AcceptSession(ctx, core.SessionRequest{ID: id, Mode: o.Sharing, TakeOver: o.TakeOver})
	if core.CodeOf(err) == core.SessionLocked {
		return l, core.Refuse(core.SessionLocked, "The requested session '%s' cannot be accepted. It may be locked by another receiver.", id)
	}
	return l, e.Refusal(err, &v.Entity)
}

func (s *Session) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOver()
}

func (h *sessionHub) open(l core.SessionLock, o core.SessionOptions, by core.Party, peer string) (core.Session, error) {
	s := &Session{
		hub: h, o: o, by: by, lock: l, until: l.Until, poller: poller{ready: true},
		woken: wake.New(), done: make(chan struct{}), link: link{peer: peer},
	}
	s.deliverEnded.L = &s.mu
	h.mu.Lock()
	err := h.refusal()
	if err == nil {
		if former := h.held[l.Key()]; former != nil {
			former.End(entity.ErrSessionLost) // the new lock has ended the old one
		}
		h.held[l.Key()] = s
		h.all[s] = struct{}{}
	}
	h.mu.Unlock()
	if err == nil && h.e.Start(s.run) {
		return s, nil
	}
	if err == nil {
		err = entity.ErrStopping
		h.remove(s)
	}
	h.release(l)
	return nil, err
}

func (h *sessionHub) remove(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, s)
	if key := s.lock.Key(); h.held[key] == s {
		delete(h.held, key)
	}
	h.retireLater()
}

func (h *sessionHub) release(l core.SessionLock) {
	e := h.e
	ctx, cancel := context.WithTimeout(e.Base, releaseTimeout)
	defer cancel()
	err := h.e.View().Queues[core.Main][l.Index].ReleaseSession(ctx, l)
	if code := core.CodeOf(err); code != "" && code != core.SessionLockLost && code != core.NotFound {
		e.Log.Warn("cannot release a session: it stays locked until its lock expires", "entity", h.e.View().Name, "err", err)
	}
}

func (h *sessionHub) sessions() []*Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.AppendSeq(make([]*Session, 0, len(h.all)), maps.Keys(h.all))
}

func (h *sessionHub) closeAll(err error) {
	h.mu.Lock()
	for _, w := range h.waiters {
		w.answer <- sessionGrant{err: err}
	}
	h.waiters = nil
	h.stopTimers()
	h.mu.Unlock()
	for _, s := range h.sessions() {
		s.End(err)
	}
}

func (h *sessionHub) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all) > 0 || h.accepting > 0
}

// retireLater makes the hub end after IdleLife without sessions and calls. h.mu is held.
func (h *sessionHub) retireLater() {
	if h.ended == nil && len(h.all) == 0 && h.accepting == 0 {
		h.retireTimer.Reset(IdleLife)
	}
}

func (h *sessionHub) retireIdle() {
	h.e.mu.Lock()
	idle := h.e.hub == h && !h.busy()
	if idle {
		h.e.hub = nil
	}
	h.e.mu.Unlock()
	if idle {
		h.stop(entity.ErrStopping)
	}
}

func (h *sessionHub) stop(err error) {
	h.mu.Lock()
	stopped := h.ended != nil
	if !stopped {
		h.ended = err
		h.retireTimer.Stop()
		for _, s := range h.finders {
			s.timer.Stop()
			s.holdersTimer.Stop()
		}
	}
	h.mu.Unlock()
	if stopped {
		return
	}
	for _, unwatch := range h.unwatch {
		unwatch()
	}
	h.closeAll(err)
}
