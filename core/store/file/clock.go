package file

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// clock starts with the wall clock's time, advances with elapsed time, and is slowly adjusted to
// the wall clock. So a step of the wall clock neither ends locks nor stops time. clock follows at
// once only if the wall clock is more than maxSlew ahead (the machine slept, or it was set).
type clock struct {
	start  time.Time
	offset atomic.Int64
	log    *slog.Logger
	wall   func() time.Time
	behind bool // adjust has already logged that the machine's clock was set far back
}

const (
	maxSlew = 24 * time.Hour
	// slewForward and slewBack are the largest adjustments per adjustEvery.
	slewForward = time.Second
	slewBack    = 500 * time.Millisecond
	adjustEvery = time.Second
)

// newClock returns a clock that starts no earlier than latest, the last time in the store's files.
// It ignores latest if that is more than maxSlew ahead of the wall clock.
func newClock(wall func() time.Time, latest time.Time, log *slog.Logger) *clock {
	c := &clock{start: time.Now(), wall: wall, log: log}
	now := wall()
	c.offset.Store(int64(now.Sub(c.start.Round(0))))
	switch ahead := latest.Sub(now); {
	case ahead <= 0:
	case ahead <= maxSlew:
		log.Warn("the machine's clock is behind the time at which this store was last used: the store's clock continues from that time, at half speed until the machine's clock has caught up", "behind", ahead)
		c.offset.Add(int64(ahead))
	default:
		log.Warn("the machine's clock is far behind the time at which this store was last used: the store uses the machine's clock, so existing locks end later, and scheduled messages become due later", "behind", ahead)
	}
	return c
}

func (c *clock) Now() time.Time {
	return c.start.Round(0).Add(time.Since(c.start) + time.Duration(c.offset.Load()))
}

// adjust moves the clock towards the wall clock. It must be called every adjustEvery.
func (c *clock) adjust() {
	diff := c.wall().Round(0).Sub(c.Now())
	switch {
	case diff > maxSlew:
		c.log.Warn("the machine's clock was set far ahead: the store's clock follows", "by", diff)
		c.offset.Add(int64(diff))
	case diff < -maxSlew:
		if !c.behind {
			c.log.Warn("the machine's clock was set far back: the store's clock ignores this until the next start", "by", -diff)
		}
		c.behind = true
		return
	default:
		c.offset.Add(int64(max(-slewBack, min(slewForward, diff))))
	}
	c.behind = false
}
