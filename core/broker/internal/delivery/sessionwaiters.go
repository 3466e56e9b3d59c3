package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type waiter struct {
	mode   core.SessionMode
	answer chan sessionGrant // buffered, for the only answer
}

type sessionGrant struct {
	lock core.SessionLock
	err  error
}

func (h *sessionHub) next(ctx context.Context, m core.SessionMode) (core.SessionLock, error) {
	w, err := h.join(m)
	if err != nil {
		return core.SessionLock{}, err
	}
	select {
	case g := <-w.answer:
		return g.lock, g.err
	case <-ctx.Done():
	}
	h.giveUp(w)
	select {
	case g := <-w.answer:
		return g.lock, g.err
	default:
		return core.SessionLock{}, core.Refuse(core.Timeout, "The operation did not complete within the allotted timeout: '%s' has no free session with messages.", h.e.View().Name)
	}
}

func (h *sessionHub) join(m core.SessionMode) (*waiter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusal(); err != nil {
		return nil, err
	}
	// While no call waited, the hub ignored notifications: any partition may have sessions.
	if len(h.waiters) == 0 {
		for _, s := range h.finders {
			s.ready = s.ready || s.backoff == 0
		}
	}
	w := &waiter{mode: m, answer: make(chan sessionGrant, 1)}
	h.waiters = append(h.waiters, w)
	h.assign()
	return w, nil
}

func (h *sessionHub) giveUp(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters = slices.DeleteFunc(h.waiters, func(other *waiter) bool { return other == w })
	h.stopTimers()
}

// h.mu is held.
func (h *sessionHub) stopTimers() {
	if len(h.waiters) > 0 {
		return
	}
	for _, s := range h.finders {
		if s.backoff == 0 {
			s.timer.Stop()
		}
	}
}

// assign starts finders in partitions that may have sessions to accept, in turn, until there is one
// for each waiting call. h.mu is held.
func (h *sessionHub) assign() {
	for i, first := 0, h.nextFinder; i < len(h.finders) && h.finding < len(h.waiters); i++ {
		at := (first + i) % len(h.finders)
		s := h.finders[at]
		if s.busy || !s.ready {
			continue
		}
		s.begin()
		h.finding++
		h.nextFinder = at + 1
		if !h.e.Start(s.find) {
			s.busy = false
			h.finding--
			return
		}
	}
}

func (h *sessionHub) wantedMode() core.SessionMode {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiters) == 0 {
		return core.Exclusive
	}
	return h.waiters[0].mode
}

// grant gives a session to the first waiter with its mode, or returns false. h.mu is held.
func (h *sessionHub) grant(l core.SessionLock) bool {
	i := slices.IndexFunc(h.waiters, func(w *waiter) bool { return w.mode == l.Mode })
	if i < 0 {
		return false
	}
	h.waiters[i].answer <- sessionGrant{lock: l}
	h.waiters = slices.Delete(h.waiters, i, i+1)
	h.stopTimers()
	return true
}

// While calls wait, each partition is asked every finderInterval: a notification may be missed.
const finderInterval = 5 * time.Second

// hub.mu guards all fields below index.
type sessionFinder struct {
	hub   *sessionHub
	index int

	poller
	timer *time.Timer

	holdersTimer *time.Timer
	holdersDue   time.Time // when holdersTimer fires, by the store's clock; zero: it is not set
}

func (f *sessionFinder) endPause() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !f.busy {
		f.ready = true
		h.assign()
	}
}

func (f *sessionFinder) find() {
	h := f.hub
	e := h.e
	for again := true; again; {
		h.e.Refresh(h.e.Base) // if the entity was deleted, this has refused the waiters
		p := h.e.View().Queues[core.Main][f.index]
		lock, ok, next, err := p.AcceptSession(e.Base, core.SessionRequest{Next: true, Mode: h.wantedMode()})

		h.mu.Lock()
		granted := ok && err == nil && h.grant(lock)
		f.noteLook(ok, next, err)
		again = f.ready && h.finding <= len(h.waiters)
		if again {
			f.begin()
		} else {
			h.finding--
			h.assign()
		}
		h.mu.Unlock()
		if ok && err == nil && !granted {
			h.release(lock)
		}
	}
}

// noteLook records the result of a call, and sets when to make the next one. hub.mu is held.
func (f *sessionFinder) noteLook(ok bool, next time.Time, err error) {
	e := f.hub.e
	pause := finderInterval
	if began, _ := f.end(ok, err); began {
		e.Log.Warn("cannot accept a session, because the partition does not answer; trying again", "entity", f.hub.e.View().Name, "partition", f.index, "err", err)
	}
	switch {
	case err != nil:
		pause = f.backoff
	case !next.IsZero():
		pause = min(pause, max(next.Sub(e.Now()), time.Millisecond))
	}
	f.timer.Stop()
	if f.hub.ended == nil && !f.ready && (len(f.hub.waiters) > 0 || f.backoff > 0) {
		f.timer.Reset(pause)
	}
}
