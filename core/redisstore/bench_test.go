package redisstore_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
)

// benchmark is a store on a server of its own, whose CPU time is read.
type benchmark struct {
	*testing.B
	server *redistest.Server
	store  *redisstore.Store
	queue  core.Partition
	before float64
}

func newBenchmark(b *testing.B) *benchmark {
	server := redistest.Start(b, redistest.Options{})
	store := open(b, server.URL(), redisstore.Options{})
	return &benchmark{B: b, server: server, store: store, queue: queue(b, store)}
}

// cpu is the seconds of CPU the server has used.
func (b *benchmark) cpu() float64 {
	b.Helper()
	info, err := b.server.Client().Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var sum float64
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "used_cpu_sys" || key == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return sum
}

// begin starts the measurement, after everything is ready.
func (b *benchmark) begin() {
	b.Helper()
	b.before = b.cpu()
	b.ReportAllocs()
	b.ResetTimer()
}

// end reports the server's share for so many messages.
func (b *benchmark) end(messages int) {
	b.Helper()
	b.StopTimer()
	b.ReportMetric((b.cpu()-b.before)*1e6/float64(messages), "server-µs/msg")
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
}

var payload = bytes.Repeat([]byte("x"), 1024)

func kilobyte() *core.Message { return &core.Message{Body: core.Body{Bytes: payload}} }

func (b *benchmark) append(n int) {
	group := make([]*core.Message, n)
	for i := range group {
		group[i] = kilobyte()
	}
	if a := b.store.Append(context.Background(), b.queue, [][]*core.Message{group}); a[0].Err != nil {
		b.Error(a[0].Err)
	}
}

func (b *benchmark) lock(n int) []core.Delivery {
	ds, _, err := b.store.Lock(context.Background(), b.queue, n)
	if err != nil {
		b.Error(err)
	}
	return ds
}

func (b *benchmark) complete(ds []core.Delivery) {
	if err := settle(b.store, b.queue, core.Complete, ds...); err != nil {
		b.Error(err)
	}
}

// BenchmarkAppend is how senders that each wait for their own message fare.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 16, 100} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			m := newBenchmark(b)
			m.begin()
			var sent atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for sent.Add(1) <= int64(b.N) {
						m.append(1)
					}
				})
			}
			wg.Wait()
			m.end(b.N)
		})
	}
}

// BenchmarkStep measures each step alone, in batches.
func BenchmarkStep(b *testing.B) {
	const size = 100
	b.Run("append", func(b *testing.B) {
		m := newBenchmark(b)
		m.begin()
		n := 0
		for b.Loop() {
			m.append(size)
			n += size
		}
		m.end(n)
	})
	b.Run("lock", func(b *testing.B) {
		m := newBenchmark(b)
		for range b.N {
			m.append(size)
		}
		m.begin()
		for range b.N {
			if got := len(m.lock(size)); got != size {
				b.Fatalf("locked %d messages, want %d", got, size)
			}
		}
		m.end(size * b.N)
	})
	b.Run("complete", func(b *testing.B) {
		m := newBenchmark(b)
		held := make([][]core.Delivery, b.N)
		for i := range held {
			m.append(size)
			held[i] = m.lock(size)
		}
		m.begin()
		for _, ds := range held {
			m.complete(ds)
		}
		m.end(size * b.N)
	})
}

// BenchmarkRoundTrip sends, locks and completes, one caller, in batches.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{1, 10, 100} {
		b.Run("batch="+strconv.Itoa(size), func(b *testing.B) {
			m := newBenchmark(b)
			m.begin()
			n := 0
			for b.Loop() {
				m.append(size)
				m.complete(m.lock(size))
				n += size
			}
			m.end(n)
		})
	}
}
