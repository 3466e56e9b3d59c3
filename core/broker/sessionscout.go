package broker

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// scoutLook is how long those that wait for a next session go without asking a
// partition, should the store's doorbell have been missed.
const scoutLook = 5 * time.Second

// scout finds free sessions in one partition. Its fields below index are
// guarded by hub.mu.
type scout struct {
	hub   *sessionHub
	index int

	ready   bool // there may be a session
	rung    bool // the doorbell rang since the last look
	busy    bool // it is under way
	timer   *time.Timer
	backoff time.Duration // 0 while the store answers

	bell     *time.Timer // rings the holders
	expected time.Time   // when it does, by the store's clock; zero: it does not
}

// ring says that there may be a session. hub.mu is held.
func (s *scout) ring() {
	s.rung = true
	if !s.busy && s.backoff == 0 {
		s.ready = true
	}
}

// look ends a pause.
func (s *scout) look() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.busy {
		s.ready = true
		h.assign()
	}
}

// seek accepts sessions for those that wait, as long as there are any of both.
func (s *scout) seek() {
	h := s.hub
	b := h.e.b
	for again := true; again; {
		_, _ = b.refresh(b.base, h.e) // if it is gone this has sent away those that wait
		p := h.e.current.Load().partitions[core.Main][s.index]
		lock, ok, next, err := b.store.AcceptNextSession(b.base, p, h.wanted())

		h.mu.Lock()
		granted := ok && err == nil && h.grant(lock)
		s.settle(ok, next, err)
		again = s.ready && h.seeking <= len(h.waiters)
		if again {
			s.ready, s.rung = false, false
		} else {
			s.busy = false
			h.seeking--
			h.assign()
		}
		h.mu.Unlock()
		if ok && err == nil && !granted {
			h.release(lock)
		}
	}
}

// settle notes what a look has led to. hub.mu is held.
func (s *scout) settle(ok bool, next time.Time, err error) {
	b := s.hub.e.b
	pause := scoutLook
	switch {
	case err != nil:
		if s.backoff == 0 {
			b.log.Warn("accept a session: the partition does not answer, trying on", "entity", s.hub.e.key, "partition", s.index, "err", err)
		}
		s.backoff = min(max(2*s.backoff, firstBackoff), lastBackoff)
		s.ready = false
		pause = s.backoff
	default:
		s.backoff = 0
		s.ready = ok || s.rung
		if !next.IsZero() {
			pause = min(pause, max(next.Sub(b.store.Now()), time.Millisecond))
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.hub.ended == nil && !s.ready && (len(s.hub.waiters) > 0 || s.backoff > 0) {
		s.timer = time.AfterFunc(pause, s.look)
	}
}
