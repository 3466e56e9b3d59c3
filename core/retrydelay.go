package core

import (
	"math"
	"time"
)

// A receiver that abandons or releases a message can set one of these user properties to delay the
// next delivery. The broker removes them.
const (
	// PropertyRetryAfter is the delay: a number of seconds, such a number or an ISO 8601 duration
	// as a string, or a TimeSpan of .NET.
	PropertyRetryAfter = "x-crosstown-retry-after"
	// PropertyRetryAt is the time of the next delivery: a timestamp, or an RFC 3339 time as a
	// string.
	PropertyRetryAt = "x-crosstown-retry-at"
)

// MaxBackoff is the longest delay after a failed delivery.
const MaxBackoff = 24 * time.Hour

// Backoff is the delay after a failed delivery. The zero Backoff means no delay.
type Backoff struct {
	First  time.Duration // the delay after the first failure
	Factor float64       // multiplies the delay for each further failure; a factor of at most 1 has no effect
	Max    time.Duration // the longest delay; 0: MaxBackoff
}

// IsZero reports whether there is no delay.
func (b Backoff) IsZero() bool { return b.First < time.Millisecond }

// Bound returns b with a Factor of at least 1, and with a Max between 0 and MaxBackoff.
func (b Backoff) Bound() Backoff {
	b.Factor = max(b.Factor, 1)
	if b.Max <= 0 || b.Max > MaxBackoff {
		b.Max = MaxBackoff
	}
	return b
}

// After returns the delay in whole milliseconds. failures counts the failures before this one.
func (b Backoff) After(failures int) time.Duration {
	b = b.Bound()
	ms := float64(b.First.Milliseconds()) * math.Pow(b.Factor, float64(failures))
	return time.Duration(min(ms, float64(b.Max.Milliseconds()))) * time.Millisecond
}
