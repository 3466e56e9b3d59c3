package memory

import (
	"io/fs"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
)

// TestTheLevelFollowsTheMemoryInUse leads a Watch through what a process of 1000 bytes uses.
func TestTheLevelFollowsTheMemoryInUse(t *testing.T) {
	t.Parallel()
	var gauge fair.Gauge
	now, collected, evicted := time.Unix(1000, 0), 0, 0
	var h heap
	garbage, taken := int64(0), int64(0)
	var caps []int64
	files := map[string]string{
		"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1000\n", "/proc/self/status": "RssAnon: 0 kB\n", "/sys/fs/cgroup/memory.stat": "anon 0\nsock 0\n",
	}
	w := &Watch{Options: Options{Gauge: &gauge, Setting: 1000, Evict: func() bool { evicted++; return true }, Logger: slog.New(slog.DiscardHandler)}}
	w.system = system{
		file: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		heap: func() heap {
			return heap{objects: h.live + garbage, live: h.live, others: h.others, taken: taken, limit: 900}
		},
		collect: func(done func()) { collected++; garbage = 0; done() },
		now:     func() time.Time { return now },
		cap:     func(n int64) { caps = append(caps, n) },
	}
	w.last.Store(&Usage{Limit: 1})
	for i, step := range []struct {
		live, garbage, others int64
		beside                string
		after                 time.Duration
		want                  fair.Level
		collected             int
	}{
		{100, 0, 50, "anon 0", 0, fair.Normal, 0},
		{500, 0, 50, "anon 0", 0, fair.Raised, 0},
		{400, 150, 50, "anon 0", 0, fair.Normal, 0},                // garbage, below the mark
		{400, 400, 50, "anon 0", 0, fair.Normal, 1},                // garbage above it is collected
		{400, 400, 50, "anon 0", time.Millisecond, fair.Normal, 1}, // not again at once
		{450, 0, 50, "anon 240", time.Second, fair.Tight, 2},       // another process of the group leaves 760
		{450, 0, 50, "anon 110", time.Second, fair.Tight, 2},       // it ends below 55 %
		{450, 0, 50, "anon 50\nsock 30", 0, fair.Raised, 2},
		{50, 0, 10, "anon 850", 0, fair.Normal, 2}, // what others take is not the gateway's fault
		{50, 0, 10, "anon 990", 0, fair.Normal, 2}, // an eighth stays
		{70, 0, 20, "anon 990", 0, fair.Tight, 3},
		{400, 0, 50, "anon 0", 0, fair.Normal, 3},
		{750, 0, 60, "anon 0", time.Second, fair.Full, 4},
		{750, 0, 10, "anon 0", time.Second, fair.Full, 5},
		{740, 0, 0, "anon 0", time.Second, fair.Tight, 6},
	} {
		now = now.Add(step.after)
		h, garbage = heap{live: step.live, others: step.others}, step.garbage
		files["/sys/fs/cgroup/memory.stat"] = step.beside + "\n"
		if u := w.measure(); u.Level != step.want || gauge.Level() != step.want || collected != step.collected {
			t.Errorf("step %d: %+v with %d collections, want %v and %d", i, u, collected, step.want, step.collected)
		}
	}
	for _, step := range []struct {
		taken int64
		want  fair.Level
	}{{900, fair.Normal}, {930, fair.Full}, {920, fair.Normal}} {
		now, h, garbage, taken = now.Add(time.Second), heap{live: 400}, 0, step.taken
		if u := w.measure(); u.Level != step.want {
			t.Errorf("%d bytes taken by a runtime whose limit is 900: %+v, want %v", step.taken, u, step.want)
		}
	}
	if want := []int64{850, 595, 680, 85, 85, 850}; !slices.Equal(caps, want) {
		t.Errorf("Go's memory limit was set to %d, want %d", caps, want)
	}
	if evicted != 3 {
		t.Errorf("%d connections were closed while memory was full, want 3", evicted)
	}
}
