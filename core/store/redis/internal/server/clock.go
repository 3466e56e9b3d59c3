package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clock estimates the server's clock, which all gateways use, or returns the time of Given. The
// estimate is never ahead of the server's clock, so that nothing becomes due early, and lags behind
// it by at most the error of the readings. Between readings it advances with this machine's
// monotonic clock, so that setting the machine's time has no effect.
type Clock struct {
	Given func() time.Time
	last  atomic.Pointer[reading]
}

// reading says that the server's clock was between earliest and latest when this machine's clock
// was at local. In a cluster, this holds for the clocks of all masters.
type reading struct{ local, earliest, latest time.Time }

const (
	ClockRefresh = time.Second
	// clockTimeout bounds a reading: a slower one would be too imprecise, and a master that hangs
	// must not prevent the gateway from registering.
	clockTimeout  = time.Second
	FirstReadings = 3
	// drift is the inverse of the largest relative difference of clocks' speeds. NTP slews by less.
	drift = 2000
)

func (r *reading) at(local time.Time) reading {
	age := local.Sub(r.local)
	return reading{local, r.earliest.Add(age - age/drift), r.latest.Add(age + age/drift)}
}

// jump returns by how much the server's clock was set since before, or by how much the clock of
// another server differs. It returns 0 if the readings agree within their errors.
func (r reading) jump(before *reading) time.Duration {
	if before == nil {
		return 0
	}
	old := before.at(r.local)
	return max(0, r.earliest.Sub(old.latest)) + min(0, r.latest.Sub(old.earliest))
}

// narrowed returns r, with tighter bounds if the earlier reading before allows them. After a jump
// of a clock, it returns r unchanged.
func (r reading) narrowed(before *reading) reading {
	if before == nil || r.jump(before) != 0 {
		return r
	}
	old := before.at(r.local)
	if old.earliest.After(r.earliest) {
		r.earliest = old.earliest
	}
	if old.latest.Before(r.latest) {
		r.latest = old.latest
	}
	return r
}

func (c *Clock) now() time.Time {
	if c.Given != nil {
		return c.Given()
	}
	return c.server()
}

// server returns the server's time, even if Given is set.
func (c *Clock) server() time.Time {
	r := c.last.Load()
	age := time.Since(r.local)
	return r.earliest.Add(age - age/drift)
}

func (c *Clock) Skew() time.Duration {
	r := c.last.Load()
	middle := r.earliest.Add(r.latest.Sub(r.earliest) / 2)
	return middle.Sub(r.local.Round(0)) // Round drops the monotonic reading, so this compares wall clocks
}

func (s *Server) Now() time.Time { return s.Clock.now().UTC() }

func (s *Server) Millis() int64 { return s.Now().UnixMilli() }

var errNoMaster = errors.New("the Redis cluster has no master")

// ReadClock asks the server for its time. The server reads its clock between the request and the
// answer, so a slow answer gives wide bounds. In a cluster, masters that do not answer are ignored.
func (s *Server) ReadClock(ctx context.Context) error {
	var mu sync.Mutex
	var all *reading
	var errs []error
	ask := func(ctx context.Context, node *redis.Client) error {
		asked := time.Now()
		at, err := node.Time(ctx).Result()
		got := time.Now()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		one := reading{got, at, at.Add(got.Sub(asked))}
		if all != nil {
			other := all.at(got)
			if other.earliest.Before(one.earliest) {
				one.earliest = other.earliest
			}
			if other.latest.After(one.latest) {
				one.latest = other.latest
			}
		}
		all = &one
		return nil
	}
	if node, ok := s.RDB.(*redis.Client); ok {
		_ = ask(ctx, node) // its error is in errs
	} else if err := s.Cluster.ForEachMaster(ctx, ask); err != nil {
		errs = append(errs, err)
	}
	if all == nil {
		return fmt.Errorf("cannot read the clock of Redis: %w", cmp.Or(errors.Join(errs...), errNoMaster))
	}
	before := s.Clock.last.Load()
	if by := all.jump(before); by.Abs() >= clockTimeout {
		s.Log.Warn("the clock of Redis has jumped, or another server with a different clock is the master: locks and scheduled messages end early or late; synchronize the clocks of all Redis nodes", "by", by.Round(time.Millisecond))
	}
	best := all.narrowed(before)
	s.Clock.last.Store(&best)
	return nil
}
