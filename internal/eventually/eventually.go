// Package eventually waits in tests for conditions that only polling can see.
package eventually

import (
	"testing"
	"time"
)

const (
	// Bound is how long a condition may take to hold. It ends a test whose condition will never
	// hold; no machine is so busy that a condition takes this long.
	Bound = 5 * time.Minute
	// pause is the longest time between two looks.
	pause = 20 * time.Millisecond
)

// True waits until a condition holds. what says what must happen, and is the failure if it does not.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Bound, holds) {
		t.Fatalf("has not happened in %v: %s", Bound, what)
	}
}

// Within waits for a condition, and reports whether it holds within a bound, for helpers that
// report more than a failure.
func Within(bound time.Duration, holds func() bool) bool {
	next := 100 * time.Microsecond
	for end := time.Now().Add(bound); !holds(); next = min(2*next, pause) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(next)
	}
	return true
}
