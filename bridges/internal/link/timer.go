package link

import (
	"math"
	"time"
)

// beat is the interval at which the timers of all connections fire together, unless they are due
// soon: waking up for one timer costs more than its work.
const beat = time.Second

// Leeway is how much earlier than its time a Timer may fire.
const Leeway = beat

var beginning = time.Now()

// Timer wakes an Owner at a given time. Only jobs of the owner may use it.
type Timer struct {
	timer *time.Timer
	armed time.Time // when the timer fires; zero for never
}

// NewTimer returns a Timer that is not armed. When it fires, o calls the first argument of New.
func NewTimer(o *Owner) *Timer {
	t := &Timer{}
	t.timer = time.AfterFunc(math.MaxInt64, func() { o.Begin(func() { t.armed = time.Time{} }) })
	return t
}

// Arm makes the timer fire at the given time, or up to Leeway earlier. It does nothing if that time
// is zero, or if the timer fires before it anyway.
func (t *Timer) Arm(at time.Time) {
	if at.IsZero() || !t.armed.IsZero() && !at.Before(t.armed) {
		return
	}
	t.armed = at
	left := time.Until(at)
	if left > 2*beat {
		left -= (at.Sub(beginning)%beat + beat) % beat
	}
	t.timer.Reset(left)
}

func (t *Timer) Stop() { t.timer.Stop() }
