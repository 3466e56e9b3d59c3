package core

import (
	"math"
	"time"
)

// The user properties with which whoever abandons a message says when it is to
// be delivered again. The broker takes them away; they are not kept.
const (
	// PropertyRetryAfter is how long the message waits: a number of seconds, or the
	// text of one or of an ISO 8601 duration, or a TimeSpan of .NET.
	PropertyRetryAfter = "x-crosstown-retry-after"
	// PropertyRetryAt is until when: a timestamp, or the text of one (RFC 3339).
	PropertyRetryAt = "x-crosstown-retry-at"
)

// MaxBackoff is how long a failed message may wait for its next delivery.
const MaxBackoff = 24 * time.Hour

// Backoff is how long a message waits after a failed delivery. The zero Backoff
// is no wait.
type Backoff struct {
	First  time.Duration // after the first failed delivery
	Factor float64       // by which each further one multiplies it; up to 1: none does
	Max    time.Duration // never longer than this; 0: MaxBackoff
}

// IsZero reports whether there is no wait.
func (b Backoff) IsZero() bool { return b.First < time.Millisecond }

// Bound returns b with its limits written out: a Factor of at least 1, and a Max.
func (b Backoff) Bound() Backoff {
	b.Factor = max(b.Factor, 1)
	if b.Max <= 0 || b.Max > MaxBackoff {
		b.Max = MaxBackoff
	}
	return b
}

// After returns the wait after a delivery that failed like so many before it, in
// whole milliseconds.
func (b Backoff) After(failures int) time.Duration {
	b = b.Bound()
	ms := float64(b.First.Milliseconds()) * math.Pow(b.Factor, float64(failures))
	return time.Duration(min(ms, float64(b.Max.Milliseconds()))) * time.Millisecond
}
