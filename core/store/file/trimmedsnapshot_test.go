package file

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// If a snapshot is written while old events of a history are dropped, also those that the snapshot
// does not have yet, a restart finds all newer events, each once.
func TestEventsDroppedDuringASnapshot(t *testing.T) {
	t.Parallel()
	const newer = 2500
	for moment := range 32 {
		t.Run(fmt.Sprint(moment), func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			o := Options{Clock: clock.Now, Sync: SyncNever}
			dir := t.TempDir()
			s := mustOpen(t, dir, o)
			p := newQueue(t, s)
			p.History = core.HistoryBounds{Keep: time.Hour, Max: 10_000}
			note := func(number, n int64) {
				t.Helper()
				events := make([]core.Event, n)
				for i := range events {
					events[i] = core.Event{Kind: core.EventReleased, Number: number + int64(i)}
				}
				if err := p.In(s).Annotate(t.Context(), events); err != nil {
					t.Fatal(err)
				}
			}
			note(1, 1500)
			clock.Advance(50 * time.Minute)
			note(10_000, newer)
			writes := 0
			snapshotWhile(t, s, func() {
				if writes == moment {
					clock.Advance(20 * time.Minute) // the first events are too old
					note(10_000+newer, 1)
				}
				writes++
			})
			if writes <= moment {
				t.Skip("the snapshot has fewer pieces")
			}
			if err := s.log.Wait(t.Context(), s.log.End()); err != nil {
				t.Fatal(err)
			}
			s.abandon()
			s = mustOpen(t, dir, o)
			for n := int64(10_000); n <= 10_000+newer; n += 100 {
				if got, err := p.In(s).Recollect(t.Context(), core.Subject{Number: n}); err != nil || len(got) != 1 {
					t.Errorf("the event %d is there %d times, %v", n, len(got), err)
				}
			}
		})
	}
}
