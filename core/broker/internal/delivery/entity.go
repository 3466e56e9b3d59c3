// Package delivery decides which receiver gets which message. An Entity has the open receivers and
// sessions of an entity at this gateway. Each sub-queue with receivers has a dispatcher with one
// worker per partition. A worker turns the credit of all receivers into one Lock call at a time.
// While receivers wait for dead letters, their dispatcher also sweeps the main queue, so that
// expired messages become dead letters.
//
// An entity with sessions has a hub instead of a dispatcher. Each open session has a goroutine that
// locks the session's messages in order. Calls that wait for a session are in one queue, for which
// a finder per partition asks the store. Sessions and finders look for messages when the store
// notifies them (core.Watcher), when something is due, and otherwise every few seconds.
package delivery

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pause"
)

type Shared struct {
	*entity.Namespace
	Barrier *pause.Barrier
	// Start runs f in a goroutine that the broker waits for, or returns false if it has stopped.
	Start func(f func()) bool
}

func (s *Shared) call(f func()) {
	if !s.Start(f) {
		f()
	}
}

type Source interface {
	View() *entity.View
	Refresh(ctx context.Context)
	Suspect()
	Use()
	// WithQuota returns the partition with the quota that applies to it.
	WithQuota(ctx context.Context, p core.Partition) (core.Partition, error)
}

type Entity struct {
	*Shared
	Source
	traffic   *entity.Counters
	audit     *audit.Writer
	admission admission

	mu          sync.Mutex
	ended       error                         // once set, no receiver can be opened
	dispatchers map[core.SubQueue]*dispatcher // of sub-queues with receivers
	hub         *sessionHub                   // nil without session receivers
	// sweeps is dispatchers[DeadLetter], for senders: they read it without mu.
	sweeps atomic.Pointer[dispatcher]
}

func New(s *Shared, of Source, t *entity.Counters, a *audit.Writer) *Entity {
	e := &Entity{Shared: s, Source: of, traffic: t, audit: a, dispatchers: map[core.SubQueue]*dispatcher{}}
	e.admission.limiter.e = e
	return e
}

func (e *Entity) OpenReceiver(ctx context.Context, sub core.SubQueue, o core.ReceiverOptions, by core.Party) (core.Receiver, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		return nil, e.ended
	}
	v := e.View()
	if !v.Settings.Status.CanReceive() {
		return nil, entity.Disabled(v.Name)
	}
	if err := v.Receivable(sub); err != nil {
		return nil, err
	}
	d := e.dispatchers[sub]
	if d == nil {
		var ok bool
		if d, ok = newDispatcher(e, sub); !ok {
			return nil, entity.ErrStopping
		}
		e.dispatchers[sub] = d
		if sub == core.DeadLetter {
			e.sweeps.Store(d)
		}
	}
	r := &receiver{d: d, o: o, by: by, link: link{peer: core.PeerOf(ctx)}}
	if err := d.add(r); err != nil {
		return nil, err
	}
	return r, nil
}

func (e *Entity) AcceptSession(ctx context.Context, o core.SessionOptions, by core.Party) (core.Session, error) {
	h, err := e.sessionHub()
	if err != nil {
		return nil, err
	}
	defer h.leave()
	var lock core.SessionLock
	if o.Next {
		lock, err = h.next(ctx, o.Sharing)
	} else {
		lock, err = h.acceptByID(ctx, &o)
	}
	if err != nil {
		return nil, err
	}
	return h.open(lock, o, by, core.PeerOf(ctx))
}

// If sessionHub succeeds, the caller must later call leave.
func (e *Entity) sessionHub() (*sessionHub, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended != nil {
		return nil, e.ended
	}
	if v := e.View(); !v.Settings.Status.CanReceive() {
		return nil, entity.Disabled(v.Name)
	}
	if e.hub == nil {
		e.hub = newSessionHub(e)
	}
	return e.hub, e.hub.enter()
}

func (e *Entity) open() (map[core.SubQueue]*dispatcher, *sessionHub) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.dispatchers), e.hub
}

func (e *Entity) Update() {
	v := e.View()
	dispatchers, hub := e.open()
	if !v.Settings.Status.CanReceive() {
		for _, d := range dispatchers {
			d.closeReceivers(entity.Disabled(v.Name))
		}
		if hub != nil {
			hub.closeAll(entity.Disabled(v.Name))
		}
		return
	}
	if main := dispatchers[core.Main]; main != nil {
		if err := v.Receivable(core.Main); err != nil { // the entity now forwards
			main.closeReceivers(err)
		}
	}
}

func (e *Entity) End(err error) {
	e.mu.Lock()
	if e.ended != nil {
		e.mu.Unlock()
		return
	}
	e.ended = err
	dispatchers, hub := e.dispatchers, e.hub
	e.dispatchers, e.hub = nil, nil
	e.sweeps.Store(nil)
	e.mu.Unlock()
	for _, d := range dispatchers {
		d.closeReceivers(err)
		d.stop()
	}
	if hub != nil {
		hub.stop(err)
	}
}

func (e *Entity) InUse() bool {
	dispatchers, hub := e.open()
	return len(dispatchers) > 0 || hub != nil
}

// HasReceivers also returns true if no receiver is open, but a call waits for a session.
func (e *Entity) HasReceivers() bool {
	dispatchers, hub := e.open()
	for _, d := range dispatchers {
		if d.hasReceivers() {
			return true
		}
	}
	return hub != nil && hub.busy()
}

func (e *Entity) Sessions() []*Session {
	if _, hub := e.open(); hub != nil {
		return hub.sessions()
	}
	return nil
}

// Wake makes receivers and sessions look for messages, because the store's time was moved, or the
// rate limit or the circuit breaker has changed.
func (e *Entity) Wake() {
	dispatchers, hub := e.open()
	for _, d := range dispatchers {
		for _, w := range d.workers {
			w.Wake("")
		}
		d.sweepSoon.Set()
	}
	if hub != nil {
		for _, f := range hub.finders {
			hub.wake(f, "")
		}
	}
}

// DropUndelivered resets the breaker, drops messages that were locked or removed for receivers but
// not delivered, and gives the receivers their credit back. The barrier must be closed.
func (e *Entity) DropUndelivered() {
	e.ResetBreaker()
	dispatchers, _ := e.open()
	for _, d := range dispatchers {
		d.dropUndelivered()
	}
}

func (e *Entity) AwaitsDeadLetters() bool { return e.sweeps.Load() != nil }

// ExpectExpiry schedules a sweep of the main queue at the given time, so that receivers of dead
// letters get what has expired. It ignores a zero time.
func (e *Entity) ExpectExpiry(at time.Time) {
	if d := e.sweeps.Load(); d != nil {
		d.expectExpiry(at)
	}
}

func (e *Entity) Count(t *entity.Traffic) {
	t.Breaker, t.Opened = e.Circuit().State(), e.admission.opened.Load()
	if r := e.admission.limiter.rate.Load(); r != nil {
		t.PerSecond = 1 / r.Every.Seconds()
	}
	dispatchers, hub := e.open()
	for sub, d := range dispatchers {
		d.mu.Lock()
		t.Queues[sub].Receivers, t.Queues[sub].Credit = len(d.receivers), d.credit
		d.mu.Unlock()
	}
	if hub != nil {
		hub.mu.Lock()
		t.Sessions, t.Waiting = len(hub.all), len(hub.waiters)
		hub.mu.Unlock()
	}
}
