package file

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/internal/state"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// reopened is a store that can be closed and opened again while others hold it.
type reopened struct{ *Store }

// The engine answers as the memory engine does, whether or not it is closed and opened again in
// between, from a snapshot or from the log alone, with and without messages in memory.
func TestStoreAnswersAsTheModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			o := Options{Clock: clock.Now, Sync: SyncNever, Memory: int64(seed%3) - 1, segmentSize: 64 << 10}
			dir := t.TempDir()
			s, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			engine := &reopened{Store: s}
			restarts := 0
			model := state.New(state.Options{Clock: clock.Now})
			storetest.Differential(t, seed, 1000, model, engine, clock, func() {
				switch restarts++; restarts % 3 {
				case 0: // from the log alone, as after a crash
					s.abandon()
				case 1:
					err = s.Snapshot(t.Context())
				default:
					err = nil
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil && restarts%3 != 0 {
					t.Fatal(err)
				}
				if s, err = Open(dir, o); err != nil {
					t.Fatal(err)
				}
				engine.Store = s
				model.EndLinks()
			})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
