package remote

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// BenchmarkForward moves messages of 1 KiB out of a full queue: to another queue
// of the broker, or over a connection on the same machine to a queue of another
// broker in this process. Both keep messages in memory; cpu is that of both.
func BenchmarkForward(b *testing.B) {
	for _, keys := range []int{0, 50} {
		for _, way := range []string{"local", "batches/window=1", "batches/window=100", "batches/window=500", "singly/window=1", "singly/window=100", "singly/window=500"} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, way), func(b *testing.B) { benchmarkForward(b, way, keys) })
		}
	}
}

func benchmarkForward(b *testing.B, way string, keys int) {
	b.ReportAllocs()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	there := newSite(b, nil)
	to, window := "orders", 0
	how := ""
	hq := New(there.options(func(o *Options) {
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", there.way.to)
		}
		if way == "local" {
			return
		}
		to = "hq:orders"
		if _, err := fmt.Sscanf(way, "batches/window=%d", &window); err != nil {
			_, _ = fmt.Sscanf(way, "singly/window=%d", &window)
			how = "singly"
		}
		o.Window, o.Batches = window, how == ""
	}))
	here := newSite(b, map[string]core.Remote{"hq": hq})
	here.runs(b, hq)
	large := func(s *core.Settings) { s.MaxSizeInMegabytes = core.MaxSizeMegabytes }
	there.create(b, "orders", large)
	here.create(b, "orders", large)
	here.create(b, "q", large)
	for sent := 0; sent < b.N; sent += 100 {
		ms := numbered(sent, min(100, b.N-sent))
		for i, m := range ms {
			m.Body.Bytes = make([]byte, 1024)
			if keys > 0 {
				m.SessionID = fmt.Sprint("s", (sent+i)%keys)
			}
		}
		here.send(b, "q", ms...)
	}
	eventually.True(b, "the remote is connected", func() bool { return hq.State().Connected })
	ent, _, err := here.Entity(b.Context(), root, "q")
	if err != nil {
		b.Fatal(err)
	}
	ent.Settings.ForwardTo = to
	began := processor()
	b.ResetTimer()
	if _, err := here.UpdateEntity(b.Context(), root, "q", ent.Settings); err != nil {
		b.Fatal(err)
	}
	eventually.True(b, "all is forwarded", func() bool {
		_, rt, err := here.Entity(b.Context(), root, "q")
		if err != nil {
			b.Fatal(err)
		}
		return rt.Active == 0
	})
	b.StopTimer()
	b.ReportMetric(float64((processor()-began).Microseconds())/float64(b.N), "cpu-µs/msg")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// processor is the time that this process has spent.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it never fails for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
