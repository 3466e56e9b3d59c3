package filestore

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// mustOpen opens a store and closes it when the test ends.
func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever})
	})
}

// Messages that are not in memory are read from the log.
func TestStoreWithoutMessagesInMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever, Memory: -1})
	})
}
