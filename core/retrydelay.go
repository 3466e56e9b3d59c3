package core

import (
	"math"
	"time"
)

// User properties of an abandon or release that delay the next delivery. The broker removes them.
const (
	// PropertyRetryAfter is a delay: a number of seconds (perhaps as a string), an ISO 8601
	// duration, or a TimeSpan of .NET.
	PropertyRetryAfter = "x-crosstown-retry-after"
	// PropertyRetryAt is the time of the next delivery: a timestamp, or RFC 3339 as a string.
	PropertyRetryAt = "x-crosstown-retry-at"
)

// MaxBackoff is the longest delay after a failed delivery.
const MaxBackoff = 24 * time.Hour

// Backoff is the delay after a failed delivery. The zero value means no delay.
type Backoff struct {
	First  time.Duration
	Factor float64       // multiplies the delay after each further failure; values up to 1 have no effect
	Max    time.Duration // 0: MaxBackoff
}

// IsZero reports whether there is no delay.
func (b Backoff) IsZero() bool { return b.First < time.Millisecond }

// Bound returns b with a Factor of at least 1 and a Max between 0 and MaxBackoff.
func (b Backoff) Bound() Backoff {
	b.Factor = max(b.Factor, 1)
	if b.Max <= 0 || b.Max > MaxBackoff {
		b.Max = MaxBackoff
	}
	return b
}

// After returns the delay, in whole milliseconds, after a failure. failures counts earlier ones.
func (b Backoff) After(failures int) time.Duration {
	b = b.Bound()
	ms := float64(b.First.Milliseconds()) * math.Pow(b.Factor, float64(failures))
	return time.Duration(min(ms, float64(b.Max.Milliseconds()))) * time.Millisecond
}
