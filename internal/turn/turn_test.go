package turn

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestLargeRequestsUseHalfOfTheProcessors(t *testing.T) {
	t.Parallel()
	var working, most atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var large, small Turn
			large.Take(Large)
			large.Take(Large) // has a place
			defer large.End()
			n := working.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			small.Take(Large - 1) // does not wait
			small.End()
			working.Add(-1)
		})
	}
	all.Wait()
	if n := most.Load(); n > int64(cap(places)) {
		t.Errorf("%d large requests worked at once, want at most %d", n, cap(places))
	}
	if len(places) != 0 {
		t.Errorf("%d places were not given back", len(places))
	}
}
