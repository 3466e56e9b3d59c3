package file

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest/linear"
)

func TestAQueueIsLinearizableOverRestarts(t *testing.T) {
	t.Parallel()
	linear.Queue(t, restarting(t))
}

func TestClearingIsLinearizable(t *testing.T) {
	t.Parallel()
	linear.Clearing(t, restarting(t))
}

func TestSessionsAreLinearizableOverRestarts(t *testing.T) {
	t.Parallel()
	linear.Sessions(t, restarting(t))
}

// restarting is a store that is closed and opened again under its clients, from a snapshot or from the
// log alone.
func restarting(t *testing.T) linear.Subject {
	dir, o := t.TempDir(), Options{Sync: SyncNever, Memory: 4 << 10, segmentSize: 64 << 10}
	var current atomic.Pointer[Store]
	reopen := func() {
		s, err := Open(dir, o)
		if err != nil {
			t.Errorf("open: %v", err)
			return
		}
		current.Store(s)
	}
	reopen()
	t.Cleanup(func() {
		if err := current.Load().Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return linear.Subject{
		EndsLinks: true,
		Stores:    []func() core.Store{func() core.Store { return current.Load() }},
		Break: func(random *rand.Rand) func() {
			if random.IntN(2) == 0 {
				current.Load().abandon()
			} else if err := current.Load().Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			return reopen
		},
	}
}
