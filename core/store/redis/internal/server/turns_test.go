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
		for takes, want := range map[time.Duration]time.Duration{
			5 * time.Millisecond:   15 * time.Millisecond,  // one after the other
			50 * time.Millisecond:  250 * time.Millisecond, // and as much time for others between them
			700 * time.Millisecond: 2700 * time.Millisecond,
			10 * time.Second:       12 * time.Second, // each waits for the one before for a second
		} {
			if took := run(3, takes); took != want {
				t.Errorf("three exchanges of %v took %v, want %v", takes, took, want)
			}
			time.Sleep(maxTurn) // until the last pause has ended
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
