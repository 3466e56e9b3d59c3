package memory

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func TestPartOf(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for live, want := range map[uint64]int{0: 400, mb: 400, 24 * mb: 400, 48 * mb: 200, 96 * mb: 100, 1000 * mb: 100} {
		if got := partOf(live); got != want {
			t.Errorf("%d MB live: got %d %%, want %d", live/mb, got, want)
		}
	}
}

// TestThePaceFollowsTheLivingMemory is the only test of its process that looks at the percentage.
func TestThePaceFollowsTheLivingMemory(t *testing.T) {
	pace(usual)
	var held []byte
	for _, step := range []struct {
		live, least, most int
	}{
		{0, 350, 400},
		{200 << 20, 100, 112},
		{0, 350, 400},
		{48 << 20, 120, 230},
	} {
		held = make([]byte, step.live)
		got := 0
		if !eventually.Within(time.Minute, func() bool {
			runtime.GC()
			got = debug.SetGCPercent(usual)
			debug.SetGCPercent(got)
			return got >= step.least && got <= step.most
		}) {
			t.Errorf("%d MB are held: the percentage is %d, want %d to %d", step.live>>20, got, step.least, step.most)
		}
		runtime.KeepAlive(held)
	}
}
