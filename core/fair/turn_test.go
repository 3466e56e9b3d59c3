package fair

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestHalfOfTheProcessorsDecodeLargeRequests(t *testing.T) {
	t.Parallel()
	var decoding, most atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var turn Turn
			turn.Take(longWork)
			turn.Take(longWork) // is held already
			defer turn.End()
			n := decoding.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			var small Turn
			small.Take(longWork - 1) // does not wait
			small.End()
			decoding.Add(-1)
		})
	}
	all.Wait()
	if n := most.Load(); n > int64(cap(turns)) {
		t.Errorf("%d large requests were decoded at once, want at most %d", n, cap(turns))
	}
	if len(turns) != 0 {
		t.Errorf("%d turns did not end", len(turns))
	}
}
