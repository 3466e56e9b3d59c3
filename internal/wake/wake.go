// Package wake lets goroutines wait: for a signal of another goroutine, or for a time.
package wake

import (
	"context"
	"time"
)

// Signal holds at most one signal.
type Signal chan struct{}

func New() Signal { return make(Signal, 1) }

// Set wakes the goroutine that receives from s now, or the next one. It does not block.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// After waits for d. It returns false if ctx ends first.
func After(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Timer returns a timer that calls f when it fires. It does not run until it is reset.
func Timer(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}
