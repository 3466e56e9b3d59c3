//go:build unix

package file

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// BenchmarkRoundTrip appends, locks and completes messages, on the memory engine and on files.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		for _, batch := range []int{1, 32} {
			engines := map[string]func(b *testing.B) core.Store{
				"memory":   func(*testing.B) core.Store { return state.New(state.Options{}) },
				"interval": func(b *testing.B) core.Store { return mustOpen(b, b.TempDir(), Options{}) },
				"always":   func(b *testing.B) core.Store { return mustOpen(b, b.TempDir(), Options{Sync: SyncAlways}) },
			}
			for _, engine := range []string{"memory", "interval", "always"} {
				b.Run(fmt.Sprintf("size=%d/batch=%d/%s", size, batch, engine), func(b *testing.B) {
					s := engines[engine](b)
					p := newQueue(b, s)
					group := make([]*core.Message, batch)
					for i := range group {
						group[i] = &core.Message{MessageID: core.StringID("0123456789abcdef"), Body: core.Body{Bytes: make([]byte, size)}}
					}
					b.ReportAllocs()
					before := processorTime()
					for b.Loop() {
						roundTrip(b, s, p, group)
					}
					messages := float64(b.N * batch)
					b.ReportMetric(float64((processorTime()-before).Nanoseconds())/messages, "cpu-ns/message")
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/messages, "ns/message")
				})
			}
		}
	}
}

func roundTrip(b *testing.B, s core.Store, p core.Partition, group []*core.Message) {
	if a := p.Append(b.Context(), [][]*core.Message{group}); a[0].Err != nil {
		b.Fatal(a[0].Err)
	}
	ds, _, err := p.Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: len(group)}})
	if err != nil || len(ds) != len(group) {
		b.Fatalf("lock: %d, %v", len(ds), err)
	}
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i].Token = ds[i].LockToken
	}
	for _, err := range p.Settle(b.Context(), settlements) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart opens a store with a backlog of BACKLOG messages (100,000) of 1 KiB, that was closed in
// order, and reports what it takes in memory.
func BenchmarkStart(b *testing.B) {
	backlog := 100_000
	if n, err := strconv.Atoi(os.Getenv("BACKLOG")); err == nil {
		backlog = n
	}
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	p := newQueue(b, s)
	group := make([]*core.Message, 100)
	for i := range group {
		group[i] = &core.Message{Body: core.Body{Bytes: make([]byte, 1<<10)}}
	}
	begun := time.Now()
	for range backlog / len(group) {
		if a := p.Append(b.Context(), [][]*core.Message{group}); a[0].Err != nil {
			b.Fatal(a[0].Err)
		}
	}
	b.Logf("%d messages sent in %v", backlog, time.Since(begun))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		heap, begun := heapInUse(), time.Now()
		s, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms")
		b.ReportMetric(float64(heapInUse()-heap)/float64(max(backlog, 1)), "heap-B/message")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
