package host_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// cpuTime is what a process has used; 0 stands for the test itself.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	if pid == 0 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	var total int64
	for _, t := range threads {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, t.Name()))
		if f := strings.Fields(string(line)); len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			total += n
		}
	}
	return time.Duration(total)
}

// BenchmarkRoute is one pass-through stage: what a message of 1 KiB with five
// properties costs in both processes together, and how long it takes. Callers
// ask at the same time, each for so many messages at once.
func BenchmarkRoute(b *testing.B) {
	for _, c := range []struct {
		callers, batch int
		manner         string
	}{
		{1, 1, "pass"},
		{1, 1, "pass-body"},
		{10, 1, "pass"},
		{100, 1, "pass"},
		{1, 10, "pass"},
		{1, 32, "pass"},
		{1, 100, "pass"},
		{4, 32, "pass"},
		{4, 32, "pass-body"},
		{4, 100, "pass"},
		{4, 100, "pass-body"},
	} {
		b.Run(fmt.Sprintf("%s/callers=%d/batch=%d", c.manner, c.callers, c.batch), func(b *testing.B) {
			benchmarkRoute(b, c.callers, c.batch, c.manner)
		})
	}
}

func benchmarkRoute(b *testing.B, callers, batch int, manner string) {
	// The gateway's heap is not as small as that of a test: its collector runs seldom.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	h := host.New([]host.Options{{Name: "pass", Path: rogue, Args: []string{manner}, CallTimeout: 10 * time.Second}}, nil)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := h.Launched(ctx); err != nil {
		b.Fatal(err)
	}
	router, err := h.Router("pass")
	if err != nil {
		b.Fatal(err)
	}
	pid, err := strconv.Atoi(h.States()[0].PID)
	if err != nil {
		b.Fatal(err)
	}
	ms := make([]*core.Message, batch)
	for i := range ms {
		ms[i] = message(b, "order-"+strconv.Itoa(i), "region", "eu", "amount", int64(1299), "express", true, "tries", int32(2), "customer", "c-4711")
		ms[i].Body.Bytes = bytes.Repeat([]byte("x"), 1024)
		ms[i].ContentType = "application/json"
	}
	at := core.Stage{Entity: "orders"}
	var (
		left  atomic.Int64
		mu    sync.Mutex
		times []time.Duration
		all   sync.WaitGroup
	)
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b, 0) + cpuTime(b, pid)
	for range callers {
		all.Go(func() {
			var mine []time.Duration
			for left.Add(-1) >= 0 {
				began := time.Now()
				if _, err := router.Route(ctx, at, ms); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			times = append(times, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	cpu = cpuTime(b, 0) + cpuTime(b, pid) - cpu
	b.StopTimer()
	slices.Sort(times)
	messages := float64(b.N * batch)
	b.ReportMetric(float64(cpu.Microseconds())/messages, "cpu-µs/msg")
	b.ReportMetric(messages/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
