package redis

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPagesOfSessionsAreReadOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{connection: &connection{paging: make(chan struct{}, 1)}}
		page := func() error { time.Sleep(time.Second); return nil }
		began := time.Now()
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				if err := s.readPage(t.Context(), page); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.readPage(impatient, page); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: got %v", err)
		}
		readers.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("three pages of a second took %v, want 3 s", took)
		}
	})
}
