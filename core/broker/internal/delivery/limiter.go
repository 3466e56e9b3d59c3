package delivery

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

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
