package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// clock is the server's clock, so that gateways whose clocks differ agree; or
// the one given in Options. It is behind the server's clock by as much as the
// gateway may be wrong about it, and never ahead: nothing becomes due before the
// server's clock shows its time. Between readings it goes by this machine's
// monotonic clock: whoever sets the machine's time changes nothing.
type clock struct {
	given func() time.Time
	last  atomic.Pointer[reading]
}

// reading says between what the server's clock was at an instant of this machine's.
// In a cluster these are the bounds of all masters' clocks.
type reading struct{ local, earliest, latest time.Time }

const (
	// clockRefresh is how often the server is asked for its time.
	clockRefresh = time.Second
	// firstReadings is how often it is asked before the store is used.
	firstReadings = 3
	// drift is the part of an interval by which two clocks may measure it
	// differently: 1/drift is the most by which NTP makes a clock faster or slower.
	drift = 2000
)

// at is what a reading says about a later instant.
func (r *reading) at(local time.Time) reading {
	age := local.Sub(r.local)
	return reading{local, r.earliest.Add(age - age/drift), r.latest.Add(age + age/drift)}
}

// narrowed takes from an earlier reading what it knows better. Readings that
// contradict each other are of a clock that was set, or of another server: then
// the earlier one is worth nothing.
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
	r := c.last.Load()
	age := time.Since(r.local)
	return r.earliest.Add(age - age/drift)
}

// skew is how far the server's clock was ahead of this machine's.
func (c *clock) skew() time.Duration {
	r := c.last.Load()
	middle := r.earliest.Add(r.latest.Sub(r.earliest) / 2)
	return middle.Sub(r.local.Round(0)) // by the wall clock
}

// Now is the store's clock, UTC.
func (s *Store) Now() time.Time { return s.clock.now().UTC() }

// millis is Now as scripts get it.
func (s *Store) millis() int64 { return s.clock.now().UnixMilli() }

// instant is the time of a whole millisecond; 0 stands for none.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// readClock asks for the server's time: its answer was made at some instant between
// question and receipt, so the longer that takes the less is known. Of a cluster
// those masters count that answer.
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
	if node, ok := s.rdb.(*redis.Client); ok {
		_ = ask(ctx, node) // its error is in errs
	} else if err := s.cluster.ForEachMaster(ctx, ask); err != nil {
		errs = append(errs, err)
	}
	if all == nil {
		return fmt.Errorf("read the server's clock: %w", errors.Join(errs...))
	}
	best := all.narrowed(s.clock.last.Load())
	s.clock.last.Store(&best)
	return nil
}

// keepClock reads the server's clock now and then, and looks whether the server holds
// what it did, until ctx ends.
func (s *Store) keepClock(ctx context.Context) {
	ticker := time.NewTicker(clockRefresh)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		if err := s.readClock(bounded); err != nil {
			s.log.Debug("the store's clock was not read; the last reading stays", "err", err)
		}
		_ = s.intact() // whoever waits for Lost hears of it
		cancel()
	}
}
