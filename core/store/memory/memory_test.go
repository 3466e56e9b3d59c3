package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

func open(t *testing.T, clock *storetest.Clock) core.Store {
	s := memory.New(memory.Options{Clock: clock.Now})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, open)
}

func TestView(t *testing.T) {
	t.Parallel()
	storetest.RunView(t, open)
}

func TestStoreSaysThatARestartLosesEverything(t *testing.T) {
	t.Parallel()
	about := memory.New(memory.Options{}).About(t.Context())
	if about.Engine != "memory" || about.Durable || len(about.Warnings) != 1 || !strings.Contains(about.Warnings[0], "restart loses") {
		t.Fatalf("about: got %+v", about)
	}
}

// Callers on real time may see it advance, but never fractions of a millisecond.
func TestStoreUsesTheMachinesClockByDefault(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	now := memory.New(memory.Options{}).Now()
	if now.Before(before) || now.After(time.Now()) || now != now.Truncate(time.Millisecond) {
		t.Fatalf("now: got %v, want whole milliseconds from %v on", now, before)
	}
}
