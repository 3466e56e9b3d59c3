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
					done, err := turns.Take(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(takes) // virtual time
					done()
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
		done, err := turns.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		_, err = turns.Take(impatient)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: got %v", err)
		}
	})
}
