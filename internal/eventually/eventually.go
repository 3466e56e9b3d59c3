// Package eventually waits in tests for conditions that can only be polled.
package eventually

import (
	"testing"
	"time"
)

const (
	// Bound is the maximum wait for a condition. It ends a test whose condition never becomes true,
	// and is longer than a busy machine needs.
	Bound = 5 * time.Minute
	pause = 20 * time.Millisecond
)

// True waits until a condition is true. what describes the condition in the failure.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Bound, holds) {
		t.Fatalf("has not happened in %v: %s", Bound, what)
	}
}

// Unlike True, Within does not fail the test: the caller decides what to do.
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
