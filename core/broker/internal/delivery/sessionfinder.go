package delivery

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// finderInterval is how often a partition is asked for a free session while calls wait, in case the
// store's doorbell has been missed.
const finderInterval = 5 * time.Second

// sessionFinder finds free sessions in one partition. Its fields below index are
// guarded by hub.mu.
type sessionFinder struct {
	hub   *sessionHub
	index int

	poller
	timer *time.Timer

	holdersTimer *time.Timer // wakes the holders
	holdersDue   time.Time   // when it fires, by the store's clock; zero: it is not set
}

// endPause ends a pause after an outage, or between looks.
func (f *sessionFinder) endPause() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !f.busy {
		f.ready = true
		h.assign()
	}
}

// find accepts sessions while calls wait and the partition has some.
func (f *sessionFinder) find() {
	h := f.hub
	e := h.e
	for again := true; again; {
		h.e.Refresh(h.e.Base) // if the entity is gone, this has refused the waiters
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

// noteLook notes the result of a look and schedules the next. hub.mu is held.
func (f *sessionFinder) noteLook(ok bool, next time.Time, err error) {
	e := f.hub.e
	pause := finderInterval
	if began, _ := f.end(ok, err); began {
		e.Log.Warn("accept a session: the partition does not answer; trying again", "entity", f.hub.e.View().Name, "partition", f.index, "err", err)
	}
	switch {
	case err != nil:
		pause = f.backoff
	case !next.IsZero():
		pause = min(pause, max(next.Sub(e.Now()), time.Millisecond))
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.hub.ended == nil && !f.ready && (len(f.hub.waiters) > 0 || f.backoff > 0) {
		f.timer = time.AfterFunc(pause, f.endPause)
	}
}
