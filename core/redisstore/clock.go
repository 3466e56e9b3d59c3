package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// clock is the server's clock, so that gateways whose clocks differ agree; or
// the one given in Options. Between readings it goes by this machine's
// monotonic clock: whoever sets the machine's time changes nothing.
type clock struct {
	given func() time.Time
	last  atomic.Pointer[reading]
}

// reading is what the server's clock showed at an instant of this machine's.
type reading struct{ server, local time.Time }

// clockRefresh is how often the server is asked for its time.
const clockRefresh = 10 * time.Second

// yieldsTo reports whether the reading, at its age, is worth less than a new one
// whose answer took so long, for the longer the less exact.
func (r *reading) yieldsTo(took time.Duration) bool {
	const exact = 100 * time.Millisecond
	return took <= exact+time.Since(r.local)/100
}

func (c *clock) now() time.Time {
	if c.given != nil {
		return c.given()
	}
	r := c.last.Load()
	return r.server.Add(time.Since(r.local))
}

// skew is how far the server's clock was ahead of this machine's.
func (c *clock) skew() time.Duration {
	r := c.last.Load()
	return r.server.Sub(r.local.Round(0)) // by the wall clock
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

var errTime = errors.New("redis: TIME answered something else than two numbers")

// readClock measures how far the server's clock is ahead, assuming that its
// answer was made half-way between question and receipt.
func (s *Store) readClock(ctx context.Context) error {
	asked := time.Now()
	reply, err := s.do(ctx, "TIME")
	if err != nil {
		return fmt.Errorf("read the server's clock: %w", err)
	}
	took := time.Since(asked)
	at, err := parseTime(reply)
	if err != nil {
		return err
	}
	if last := s.clock.last.Load(); last != nil && !last.yieldsTo(took) {
		return fmt.Errorf("read the server's clock: the answer took %v", took)
	}
	s.clock.last.Store(&reading{server: at, local: asked.Add(took / 2)})
	return nil
}

func parseTime(reply any) (time.Time, error) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return time.Time{}, errTime
	}
	var n [2]int64
	for i, part := range parts {
		text, _ := part.(string)
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return time.Time{}, errTime
		}
	}
	return time.Unix(n[0], n[1]*int64(time.Microsecond)), nil
}

// keepClock reads the server's clock now and then until ctx ends.
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
			s.log.Debug("the store's clock was not read; the last correction stays", "err", err)
		}
		cancel()
	}
}
