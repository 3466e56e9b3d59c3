package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// bench is a store with one partition, and a message of 1 KiB.
type bench struct {
	*testing.B
	store  *memory.Store
	queue  core.Partition
	groups [][]*core.Message
}

func newBench(b *testing.B, batch int) *bench {
	s := memory.New(memory.Options{})
	e := core.Entity{Namespace: "ns", Name: "bench", ID: "bench", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(b.Context(), e, core.NamespaceQuotas{}); err != nil {
		b.Fatal(err)
	}
	m := &core.Message{MessageID: core.StringID("0123456789abcdef"), Body: core.Body{Bytes: make([]byte, 1024)}}
	group := make([]*core.Message, batch)
	for i := range group {
		group[i] = m
	}
	queue := s.Partition(core.Ref{Entity: e.ID}, core.Policy{LockDuration: time.Minute, MaxDeliveryCount: 10})
	b.ReportAllocs()
	return &bench{b, s, queue, [][]*core.Message{group}}
}

func (b *bench) append() {
	if a := b.queue.Append(b.Context(), b.groups); a[0].Err != nil {
		b.Fatal(a[0].Err)
	}
}

func (b *bench) lockAndComplete() {
	ds, _, err := b.queue.Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: len(b.groups[0])}})
	if err != nil || len(ds) != len(b.groups[0]) {
		b.Fatalf("lock: got %d messages, %v, want %d", len(ds), err, len(b.groups[0]))
	}
	settlements := make([]core.Settlement, len(ds))
	for i := range ds {
		settlements[i].Token = ds[i].LockToken
	}
	for _, err := range b.queue.Settle(b.Context(), settlements) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) perMessage() {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(b.groups[0])), "ns/message")
}

func BenchmarkAppend(b *testing.B) {
	forBatches(b, func(b *bench) {
		const most = 1 << 17 // empties the partition now and then, to bound the memory
		queued := 0
		for b.Loop() {
			b.append()
			if queued += len(b.groups[0]); queued >= most {
				b.StopTimer()
				for range queued / len(b.groups[0]) {
					b.lockAndComplete()
				}
				queued = 0
				b.StartTimer()
			}
		}
	})
}

func BenchmarkLockAndComplete(b *testing.B) {
	forBatches(b, func(b *bench) {
		const refill = 1 << 14
		queued := 0
		for b.Loop() {
			if queued == 0 {
				b.StopTimer()
				for ; queued < refill; queued += len(b.groups[0]) {
					b.append()
				}
				b.StartTimer()
			}
			b.lockAndComplete()
			queued -= len(b.groups[0])
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	forBatches(b, func(b *bench) {
		for b.Loop() {
			b.append()
			b.lockAndComplete()
		}
	})
}

// BenchmarkHistory is a round trip with a history.
func BenchmarkHistory(b *testing.B) {
	forBatches(b, func(b *bench) {
		b.queue.History = core.HistoryBounds{Keep: time.Hour, Max: 100_000}
		b.queue = b.queue.In(b.store)
		for b.Loop() {
			b.append()
			b.lockAndComplete()
		}
	})
}

// BenchmarkRoundTripBehindBacklog has many scheduled messages in
// the way.
func BenchmarkRoundTripBehindBacklog(b *testing.B) {
	forBatches(b, func(b *bench) {
		const backlog = 100_000
		later := &core.Message{ScheduledEnqueueTime: time.Now().Add(24 * time.Hour)}
		waiting := make([]*core.Message, backlog)
		for i := range waiting {
			waiting[i] = later
		}
		if a := b.queue.Append(b.Context(), [][]*core.Message{waiting}); a[0].Err != nil {
			b.Fatal(a[0].Err)
		}
		for b.Loop() {
			b.append()
			b.lockAndComplete()
		}
	})
}

// BenchmarkParallelRoundTrip shares one partition among all processors.
func BenchmarkParallelRoundTrip(b *testing.B) {
	bench := newBench(b, 10)
	defer bench.perMessage()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a := bench.queue.Append(b.Context(), bench.groups)
			ds, _, err := bench.queue.Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: len(bench.groups[0])}})
			if a[0].Err != nil || err != nil {
				b.Errorf("append: %v, lock: %v", a[0].Err, err)
				return
			}
			settlements := make([]core.Settlement, len(ds))
			for i := range ds {
				settlements[i].Token = ds[i].LockToken
			}
			bench.queue.Settle(b.Context(), settlements)
		}
	})
}

func forBatches(b *testing.B, run func(*bench)) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			bench := newBench(b, batch)
			defer bench.perMessage()
			run(bench)
		})
	}
}
