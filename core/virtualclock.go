package core

import "time"

// VirtualClock is the clock of a namespace with virtual time: it is ahead of the store's clock, or
// stands still. The zero VirtualClock shows the store's time.
type VirtualClock struct {
	Ahead  time.Duration `json:"ahead,omitempty"`
	Frozen time.Time     `json:"frozen,omitzero"` // the time at which it stands still; zero: it runs
}

// Between these bounds of a virtual clock, SDKs and stores can express all times.
var (
	EarliestTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	LatestTime   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// At returns the virtual time for the store's time now.
func (c VirtualClock) At(now time.Time) time.Time {
	if !c.Frozen.IsZero() {
		return c.Frozen
	}
	return now.Add(c.Ahead)
}

func (c VirtualClock) Freeze(now time.Time) VirtualClock {
	return VirtualClock{Frozen: c.At(now).UTC().Truncate(time.Millisecond)}
}

// Resume makes a frozen clock run from the time that it shows.
func (c VirtualClock) Resume(now time.Time) VirtualClock {
	return VirtualClock{Ahead: c.At(now).Sub(now)}
}

// Set sets the clock to a time from EarliestTime to LatestTime. A frozen clock stays frozen.
func (c VirtualClock) Set(now, to time.Time) (VirtualClock, error) {
	if to.Before(EarliestTime) || to.After(LatestTime) {
		return c, Refuse(OutOfRange, "The time %s is not between the years %d and %d.", to.UTC().Format(time.RFC3339), EarliestTime.Year(), LatestTime.Year())
	}
	if c.Frozen.IsZero() {
		return VirtualClock{Ahead: to.Sub(now)}, nil
	}
	return VirtualClock{Frozen: to.UTC().Truncate(time.Millisecond)}, nil
}

// Advance moves the clock by d, which may be negative.
func (c VirtualClock) Advance(now time.Time, d time.Duration) (VirtualClock, error) {
	return c.Set(now, c.At(now).Add(d))
}
