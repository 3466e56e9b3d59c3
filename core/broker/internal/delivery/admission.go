package delivery

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// admission delays deliveries of an entity's main queue that the rate limit or the circuit breaker
// does not allow yet. A Drain does not wait for such messages.
type admission struct {
	limiter limiter
	circuit atomic.Pointer[Circuit] // nil: no breaker
	opened  atomic.Int64
	warned  atomic.Bool
}

// take returns how many of n messages may be locked now. If none may, again is when to ask again.
// Otherwise the caller must call locked after it has tried to lock them. take calls the store only
// if asks is true.
func (a *admission) take(ctx context.Context, n int, asks bool) (allowed int, again time.Time, err error) {
	c := a.circuit.Load()
	if n, again = c.take(n); !again.IsZero() {
		return 0, again, nil
	}
	allowed, again, err = a.limiter.take(ctx, n, asks)
	c.locked(n-allowed, nil, nil)
	return allowed, again, err
}

func (a *admission) locked(taken int, ds []core.Delivery, l *link) {
	a.limiter.put(taken - len(ds))
	a.circuit.Load().locked(taken, ds, l)
}

func (e *Entity) SetRate(r *core.Rate) {
	if old := e.admission.limiter.rate.Swap(r); old == r || old != nil && r != nil && *old == *r {
		return
	}
	e.Wake()
}

// SetBreaker sets the breaker of the main queue; nil means none. An equal breaker keeps its state.
func (e *Entity) SetBreaker(b *Breaker) {
	switch c := e.Circuit(); {
	case b == nil && c != nil:
		e.replaceCircuit(nil)
	case b != nil && (c == nil || *b != c.Breaker):
		e.replaceCircuit(newCircuit(e, *b))
	}
}

func (e *Entity) ResetBreaker() {
	if c := e.Circuit(); c != nil {
		e.replaceCircuit(newCircuit(e, c.Breaker))
	}
}

// replaceCircuit makes c, a closed circuit or nil, the circuit of the entity.
func (e *Entity) replaceCircuit(c *Circuit) {
	old := e.admission.circuit.Swap(c)
	e.Wake()
	if s := old.State(); s == Open || s == HalfOpen {
		old.logClosed()
	}
}

// Circuit returns nil if the entity has no breaker. All methods accept a nil Circuit.
func (e *Entity) Circuit() *Circuit { return e.admission.circuit.Load() }
