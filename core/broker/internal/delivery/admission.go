package delivery

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// admission holds back deliveries of an entity's main queue: those that its rate limit does not allow yet, and those
// that its circuit breaker does not. What is held back looks like an empty queue: a Drain does not wait for it.
type admission struct {
	limiter limiter
	circuit atomic.Pointer[Circuit] // nil: it has no breaker
	opened  atomic.Int64            // how often it has opened
	warned  atomic.Bool             // that Breaker.Consecutive is too large
}

// take returns how many of n messages may be locked now. If none may, again is when to ask again. Whoever takes calls
// locked.
func (a *admission) take(ctx context.Context, n int) (allowed int, again time.Time, err error) {
	c := a.circuit.Load()
	if n, again = c.take(n); !again.IsZero() {
		return 0, again, nil
	}
	allowed, again, err = a.limiter.take(ctx, n)
	c.locked(n-allowed, nil, nil)
	return allowed, again, err
}

// reserve is take without asking the store.
func (a *admission) reserve(n int) int {
	c := a.circuit.Load()
	n, _ = c.take(n)
	allowed := a.limiter.reserve(n)
	c.locked(n-allowed, nil, nil)
	return allowed
}

// locked notes which messages were locked of those that were taken, and for which link, if that is known already.
func (a *admission) locked(taken int, ds []core.Delivery, l *link) {
	a.limiter.put(taken - len(ds))
	a.circuit.Load().locked(taken, ds, l)
}

// SetRate sets the maximum rate of deliveries of the main queue; nil means that there is no limit.
func (e *Entity) SetRate(r *core.Rate) {
	if old := e.admission.limiter.rate.Swap(r); old == r || old != nil && r != nil && *old == *r {
		return
	}
	e.wakeMain()
}

// SetBreaker sets when deliveries of the main queue pause; nil means never. A breaker that does not
// change keeps its state.
func (e *Entity) SetBreaker(b *Breaker) {
	switch c := e.Circuit(); {
	case b == nil && c != nil:
		e.admission.circuit.Store(nil)
		e.wakeMain()
	case b != nil && (c == nil || *b != c.Breaker):
		e.admission.circuit.Store(newCircuit(e, *b))
		e.wakeMain()
	}
}

// ResetBreaker closes the breaker and removes its results.
func (e *Entity) ResetBreaker() {
	if c := e.Circuit(); c != nil {
		e.admission.circuit.Store(newCircuit(e, c.Breaker))
		e.wakeMain()
	}
}

// Circuit returns the state of the circuit breaker. It is nil if there is no breaker; all methods
// accept a nil Circuit.
func (e *Entity) Circuit() *Circuit { return e.admission.circuit.Load() }

// wakeMain makes everything that waits for messages of the main queue look for them.
func (e *Entity) wakeMain() {
	dispatchers, hub := e.open()
	if d := dispatchers[core.Main]; d != nil {
		for _, w := range d.workers {
			w.Wake("")
		}
	}
	if hub != nil {
		for _, s := range hub.finders {
			hub.wake(s, "")
		}
	}
}
