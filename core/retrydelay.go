package core

import (
	"math"
	"time"
)

// A receiver that abandons or releases a message can set one of these user properties, which
// determine the time of the next delivery. The broker removes them.
const (
	// PropertyRetryAfter is the delay: a number of seconds, a string with such a number or with an
	// ISO 8601 duration, or a TimeSpan of .NET.
	PropertyRetryAfter = "x-crosstown-retry-after"
	// PropertyRetryAt is the time of the next delivery: a timestamp, or a string with one (RFC
	// 3339).
	PropertyRetryAt = "x-crosstown-retry-at"
)

// MaxBackoff is the maximum delay of a failed message.
const MaxBackoff = 24 * time.Hour

// Backoff is the delay after a failed delivery. The zero Backoff means no delay.
type Backoff struct {
	First  time.Duration // after the first failure
	Factor float64       // multiplies the delay at each further failure; 1 or less: the delay stays the same
	Max    time.Duration // the longest delay; 0: MaxBackoff
}

// IsZero reports whether there is no delay.
func (b Backoff) IsZero() bool { return b.First < time.Millisecond }

// Bound returns b with explicit limits: a Factor of at least 1, and a Max.
func (b Backoff) Bound() Backoff {
	b.Factor = max(b.Factor, 1)
	if b.Max <= 0 || b.Max > MaxBackoff {
		b.Max = MaxBackoff
	}
	return b
}

// After returns the delay after the given number of failures, in whole milliseconds.
func (b Backoff) After(failures int) time.Duration {
	b = b.Bound()
	ms := float64(b.First.Milliseconds()) * math.Pow(b.Factor, float64(failures))
	return time.Duration(min(ms, float64(b.Max.Milliseconds()))) * time.Millisecond
}
