package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLargeExchangesRunInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		run := func(n int, takes time.Duration) time.Duration {
			began := time.Now()
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if err := turns.Run(t.Context(), func() error { time.Sleep(takes); return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			return time.Since(began)
		}
		if took := run(3, 10*time.Millisecond); took != 30*time.Millisecond {
			t.Errorf("three exchanges of 10 ms took %v, want 30 ms", took)
		}
		if took := run(3, 10*time.Second); took != 11*time.Second {
			t.Errorf("three exchanges of 10 s took %v, want 11 s: two run beside the first after a second", took)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := turns.Run(t.Context(), func() error {
			return turns.Run(impatient, func() error { t.Error("it runs out of turn"); return nil })
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: got %v", err)
		}
	})
}
