package file

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// The first run makes the directory of the store, and perhaps directories above it. A loss of power
// that keeps only what is synced keeps what was acknowledged there.
func TestMessagesOfAFirstRunSurviveALossOfPowerInNewDirectories(t *testing.T) {
	t.Parallel()
	fs := faultfs.New()
	dir := "/srv/crosstown/data/messages"
	if err := fs.MkdirAll("/srv"); err != nil {
		t.Fatal(err)
	}
	clock := storetest.NewClock()
	o := Options{Clock: clock.Now, Sync: SyncAlways, fs: fs}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	p := newQueue(t, s)
	send(t, s, p, "acknowledged")
	o.fs = fs.Crash(rand.New(rand.NewPCG(1, 1)), 0)
	s.abandon()
	again := mustOpen(t, dir, o)
	if _, err := again.Entity(t.Context(), "ns", "q"); err != nil {
		t.Fatalf("the queue: %v", err)
	}
	if got, want := bodies(t, again, p), []string{"acknowledged"}; !slices.Equal(got, want) {
		t.Errorf("after the loss of power: got %q, want %q", got, want)
	}
}

// A directory that cannot be made durable is refused before anything is acknowledged in it. The next
// start, which finds it there, syncs it.
func TestADirectoryThatCannotBeSyncedIsRefused(t *testing.T) {
	t.Parallel()
	for _, unsynced := range []string{"/", "/srv", "/srv/data"} {
		fs := faultfs.New()
		var failing atomic.Bool
		failing.Store(true)
		fs.Before = func(op faultfs.Op) *faultfs.Fault {
			if failing.Load() && op.Kind == faultfs.SyncDir && op.Name == unsynced {
				return &faultfs.Fault{Err: faultfs.ErrIO}
			}
			return nil
		}
		clock := storetest.NewClock()
		o := Options{Clock: clock.Now, Sync: SyncAlways, fs: fs}
		if s, err := Open("/srv/data/messages", o); err == nil {
			t.Errorf("%s cannot be synced: the store opens", unsynced)
			s.abandon()
		}
		failing.Store(false)
		s, err := Open("/srv/data/messages", o)
		if err != nil {
			t.Fatal(err)
		}
		p := newQueue(t, s)
		send(t, s, p, "acknowledged")
		o.fs = fs.Crash(rand.New(rand.NewPCG(1, 1)), 0)
		s.abandon()
		if got, want := bodies(t, mustOpen(t, "/srv/data/messages", o), p), []string{"acknowledged"}; !slices.Equal(got, want) {
			t.Errorf("%s could not be synced: after a loss of power got %q, want %q", unsynced, got, want)
		}
	}
}
