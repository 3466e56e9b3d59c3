package file

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// What is set and cleared while a snapshot is written, before or after its pieces of the partition,
// is not there after a crash.
func TestAClearDuringASnapshotStays(t *testing.T) {
	t.Parallel()
	for moment := range 24 {
		t.Run(fmt.Sprint(moment), func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			o := Options{Clock: clock.Now, Sync: SyncNever}
			dir := t.TempDir()
			s := mustOpen(t, dir, o)
			p := newQueue(t, s)
			p.Sessions, p.History = true, core.HistoryBounds{Keep: time.Hour, Max: 100}
			note := func(reason string) {
				t.Helper()
				if err := p.In(s).Annotate(t.Context(), []core.Event{{Kind: core.EventReleased, Number: 7, Reason: reason}}); err != nil {
					t.Fatal(err)
				}
			}
			note("before")
			during := func() {
				l, _, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{ID: "a"})
				if err == nil {
					err = p.In(s).SetSessionState(t.Context(), l, []byte("state"))
				}
				if err != nil {
					t.Fatal(err)
				}
				note("cleared")
				if err := p.In(s).Clear(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			writes := 0
			snapshotWhile(t, s, func() {
				if writes == moment {
					writes++ // Clear makes the snapshot write more
					during()
					return
				}
				writes++
			})
			if writes <= moment {
				t.Skip("the snapshot has fewer pieces")
			}
			note("after")
			if err := s.log.Wait(t.Context(), s.log.End()); err != nil {
				t.Fatal(err)
			}
			s.abandon()
			s = mustOpen(t, dir, o)
			if ids, err := p.In(s).ListSessions(t.Context(), time.Time{}, "", 10); err != nil || len(ids) > 0 {
				t.Errorf("sessions %q, %v; want none", ids, err)
			}
			events, err := p.In(s).Recollect(t.Context(), core.Subject{Number: 7})
			var got []string
			for _, e := range events {
				got = append(got, e.Reason)
			}
			if want := "[after]"; err != nil || fmt.Sprint(got) != want {
				t.Errorf("events %v, %v; want %s", got, err, want)
			}
		})
	}
}
