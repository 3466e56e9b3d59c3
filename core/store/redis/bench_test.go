package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// benchmark is a store on a server of its own, whose CPU time is read.
type benchmark struct {
	*testing.B
	server *redistest.Server
	store  *redisstore.Store
	queue  core.Partition
	before float64
	spent  float64 // seconds, once it has ended
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
	b.spent = b.cpu() - b.before
	b.ReportMetric(b.spent*1e6/float64(messages), "server-µs/msg")
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
}

var payload = bytes.Repeat([]byte("x"), 1024)

func kilobyte() *core.Message { return &core.Message{Body: core.Body{Bytes: payload}} }

func (b *benchmark) append(n int) {
	group := make([]*core.Message, n)
	for i := range group {
		group[i] = kilobyte()
	}
	if a := b.queue.Append(context.Background(), [][]*core.Message{group}); a[0].Err != nil {
		b.Error(a[0].Err)
	}
}

func (b *benchmark) lock(n int) []core.Delivery {
	ds, _, err := b.queue.Lock(context.Background(), core.LockRequest{Most: core.Most{Messages: n}})
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

// BenchmarkHistory is a round trip without a history, and with one.
func BenchmarkHistory(b *testing.B) {
	for _, bounds := range []core.HistoryBounds{{}, {Keep: time.Hour, Max: 100_000}} {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("events=%d/batch=%d", bounds.Max, size), func(b *testing.B) {
				m := newBenchmark(b)
				m.queue.History = bounds
				m.queue = m.queue.In(m.store)
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
}

// BenchmarkPublish publishes one kilobyte at a time to so many subscriptions, one
// caller, or ten kilobytes in a group.
func BenchmarkPublish(b *testing.B) {
	for _, subscriptions := range []int{1, 10, 100, 1000} {
		for _, size := range []int{1, 10} {
			b.Run(fmt.Sprintf("subscriptions=%d/group=%d", subscriptions, size), func(b *testing.B) {
				m := newBenchmark(b)
				st := newStand(b, m.store)
				var queues []core.Partition
				for i := range subscriptions {
					queues = append(queues, st.subscribe(m.store, fmt.Sprint("s", i), false))
				}
				version := st.version(m.store)
				m.begin()
				n := 0
				for b.Loop() {
					group := make([]core.Publication, size)
					for i := range group {
						group[i] = to(kilobyte(), queues...)
					}
					if err := st.publish(m.store, version, group...); err != nil {
						b.Fatal(err)
					}
					n += size
				}
				m.end(n)
				b.ReportMetric(m.spent*1e6/float64(n*subscriptions), "server-µs/copy")
			})
		}
	}
}

// BenchmarkSubscriber receives what was published to ten subscriptions, in
// batches, from each of them in turn.
func BenchmarkSubscriber(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run("batch="+strconv.Itoa(size), func(b *testing.B) {
			m := newBenchmark(b)
			st := newStand(b, m.store)
			var queues []core.Partition
			for i := range 10 {
				queues = append(queues, st.subscribe(m.store, fmt.Sprint("s", i), false))
			}
			version := st.version(m.store)
			group := make([]core.Publication, size)
			for i := range group {
				group[i] = to(kilobyte(), queues...)
			}
			for range b.N {
				if err := st.publish(m.store, version, group...); err != nil {
					b.Fatal(err)
				}
			}
			m.begin()
			for range b.N {
				for _, m.queue = range queues {
					m.complete(m.lock(size))
				}
			}
			m.end(size * len(queues) * b.N)
		})
	}
}

// BenchmarkSessions sends a message to each of a thousand sessions; then each is
// accepted, its message locked and completed, and the session released.
func BenchmarkSessions(b *testing.B) {
	const count = 1000
	m := newBenchmark(b)
	m.queue.Sessions = true
	m.queue = m.queue.In(m.store)
	groups := make([][]*core.Message, count)
	for i := range groups {
		groups[i] = []*core.Message{kilobyte()}
		groups[i][0].SessionID = fmt.Sprint("session-", i)
	}
	ctx := context.Background()
	m.begin()
	n := 0
	for b.Loop() {
		for _, a := range m.queue.Append(ctx, groups) {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
		}
		for range count {
			l, ok, _, err := m.queue.AcceptSession(ctx, core.SessionRequest{Next: true})
			if err != nil || !ok {
				b.Fatalf("accept: %v, %v", ok, err)
			}
			ds, _, err := m.queue.Lock(ctx, core.LockRequest{Most: core.Most{Messages: 10}, Session: &l})
			if err != nil || len(ds) != 1 {
				b.Fatalf("lock: %d messages, %v", len(ds), err)
			}
			m.complete(ds)
			if err := m.queue.ReleaseSession(ctx, l); err != nil {
				b.Fatal(err)
			}
		}
		n += count
	}
	m.end(n)
}

// BenchmarkInSession is BenchmarkRoundTrip in one session that is held.
func BenchmarkInSession(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run("batch="+strconv.Itoa(size), func(b *testing.B) {
			m := newBenchmark(b)
			m.queue.Sessions = true
			m.queue = m.queue.In(m.store)
			l := accept(b, m.store, m.queue, "s")
			group := make([]*core.Message, size)
			for i := range group {
				group[i] = kilobyte()
				group[i].SessionID = "s"
			}
			m.begin()
			n := 0
			for b.Loop() {
				if a := m.queue.Append(b.Context(), [][]*core.Message{group}); a[0].Err != nil {
					b.Fatal(a[0].Err)
				}
				m.complete(lockIn(b, m.store, m.queue, l, size))
				n += size
			}
			m.end(n)
		})
	}
}
