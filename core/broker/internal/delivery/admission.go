package delivery

import (
	"context"
	"sync"
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

const (
	// The limiter asks the store for what the rate allows in grantTime, or in one burst if that is
	// more, but at most for maxGrant deliveries.
	grantTime = 50 * time.Millisecond
	maxGrant  = 200
	// grantLife is how long a gateway may keep granted deliveries that it has not used.
	grantLife = time.Second
)

// limiter enforces a rate that all gateways share: the store grants a few deliveries at a time.
type limiter struct {
	e    *Entity
	rate atomic.Pointer[core.Rate]

	asking sync.Mutex // held during calls to the store

	mu     sync.Mutex
	unused int
	lapse  time.Time
	again  time.Time // before this time the store grants nothing
}

// If none of n messages may be delivered now, again is when to ask again. If asks is false, only
// deliveries that the store has already granted are taken.
func (l *limiter) take(ctx context.Context, n int, asks bool) (allowed int, again time.Time, err error) {
	r := l.rate.Load()
	if r == nil || n <= 0 {
		return n, time.Time{}, nil
	}
	if !asks {
		allowed, again = l.use(r, n)
		return allowed, again, nil
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	if allowed, again = l.use(r, n); allowed > 0 || !again.IsZero() {
		return allowed, again, nil
	}
	granted, again, err := l.e.View().Queues[core.Main][0].Take(ctx, *r, min(max(int(grantTime/r.Every), min(n, r.Burst)), maxGrant))
	if err != nil {
		return 0, time.Time{}, err
	}
	l.mu.Lock()
	l.unused, l.lapse, l.again = granted, l.e.Now().Add(grantLife), again
	l.mu.Unlock()
	allowed, again = l.use(r, n)
	return allowed, again, nil
}

// use takes up to n granted deliveries. If there are none, again is when to ask the store; zero:
// now.
func (l *limiter) use(r *core.Rate, n int) (used int, again time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.e.Now()
	if now.After(l.lapse) {
		l.unused = 0
	}
	if used = min(n, l.unused); used > 0 {
		l.unused -= used
		return used, time.Time{}
	}
	if wait := l.again.Sub(now); wait <= 0 || wait > r.Every { // otherwise the clock was set back, or the rate has changed
		return 0, time.Time{}
	}
	return 0, l.again
}

func (l *limiter) put(n int) {
	if l.rate.Load() != nil {
		l.mu.Lock()
		l.unused += n
		l.mu.Unlock()
	}
}
