package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// clock is the machine's clock corrected by the server's, so that gateways
// whose clocks differ agree; or the one given in Options.
type clock struct {
	given func() time.Time
	skew  atomic.Int64 // ns the server is ahead
}

// clockRefresh is how often the server is asked for its time.
const clockRefresh = 10 * time.Second

func (c *clock) now() time.Time {
	if c.given != nil {
		return c.given()
	}
	return time.Now().Add(time.Duration(c.skew.Load()))
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
	s.clock.skew.Store(int64(at.Sub(asked.Add(took / 2))))
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
