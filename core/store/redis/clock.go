package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// clock follows the server's clock, on which all gateways agree, or the clock given in Options. It
// lags the server's clock by at most the error of the readings, and is never ahead of it, so
// nothing becomes due early. Between readings it follows this machine's monotonic clock, so changes
// to the machine's time do not matter.
type clock struct {
	given func() time.Time
	last  atomic.Pointer[reading]
}

// reading bounds the server's clock at an instant of this machine's clock. In a cluster, these are
// the bounds of all masters' clocks.
type reading struct{ local, earliest, latest time.Time }

const (
	// clockRefresh is how often the server's clock is read.
	clockRefresh = time.Second
	// clockTimeout bounds a reading. A slower reading is too imprecise, and a master that hangs
	// must not prevent the gateway from registering.
	clockTimeout = time.Second
	// firstReadings is how often it is read before the store is used.
	firstReadings = 3
	// drift bounds how much two clocks may differ in measuring an interval: by 1/drift of it, which
	// is more than NTP slews a clock.
	drift = 2000
)

// at returns the bounds of the server's clock at a later instant.
func (r *reading) at(local time.Time) reading {
	age := local.Sub(r.local)
	return reading{local, r.earliest.Add(age - age/drift), r.latest.Add(age + age/drift)}
}

// narrowed tightens a reading by an earlier one. If the two contradict each other, the clock was
// set, or is another server's, and narrowed ignores the earlier reading.
func (r reading) narrowed(before *reading) reading {
	if before == nil {
		return r
	}
	old := before.at(r.local)
	if old.latest.Before(r.earliest) || old.earliest.After(r.latest) {
		return r
	}
	if old.earliest.After(r.earliest) {
		r.earliest = old.earliest
	}
	if old.latest.Before(r.latest) {
		r.latest = old.latest
	}
	return r
}

func (c *clock) now() time.Time {
	if c.given != nil {
		return c.given()
	}
	return c.server()
}

// server returns the time by the server's clock, even if Options give another clock.
func (c *clock) server() time.Time {
	r := c.last.Load()
	age := time.Since(r.local)
	return r.earliest.Add(age - age/drift)
}

// skew returns how far the server's clock was ahead of this machine's clock.
func (c *clock) skew() time.Duration {
	r := c.last.Load()
	middle := r.earliest.Add(r.latest.Sub(r.earliest) / 2)
	return middle.Sub(r.local.Round(0)) // by the wall clock
}

// Now returns the time by the store's clock, in UTC.
func (s *Store) Now() time.Time {
	now := s.clock.now().UTC()
	if s.time != nil {
		now = s.time(now)
	}
	return now
}

// WithTime returns a view of the store whose time is f of the store's time. Partitions used through
// the view have shards with the view's time.
func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store {
	return &Store{connection: s.connection, time: f}
}

// millis returns Now in the form that scripts take.
func (s *Store) millis() int64 { return s.Now().UnixMilli() }

// instant returns the time for a number of milliseconds, or the zero time for 0.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

var errNoMaster = errors.New("the cluster has no master")

// readClock reads the server's clock. The server reads it at some instant between the request and its answer,
// so a slow answer is less precise. In a cluster, masters that do not answer are ignored.
func (s *Store) readClock(ctx context.Context) error {
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
	if node, ok := s.client.RDB.(*redis.Client); ok {
		_ = ask(ctx, node) // its error is in errs
	} else if err := s.client.Cluster.ForEachMaster(ctx, ask); err != nil {
		errs = append(errs, err)
	}
	if all == nil {
		return fmt.Errorf("read the server's clock: %w", cmp.Or(errors.Join(errs...), errNoMaster))
	}
	best := all.narrowed(s.clock.last.Load())
	s.clock.last.Store(&best)
	return nil
}
