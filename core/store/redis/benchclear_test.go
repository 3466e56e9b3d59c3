package redis_test

import (
	"strconv"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// BenchmarkClear is how long a caller waits until a queue of so many messages, a
// tenth of them locked, is empty.
func BenchmarkClear(b *testing.B) {
	for _, backlog := range []int{1, 1_000, 100_000} {
		b.Run("messages="+strconv.Itoa(backlog), func(b *testing.B) {
			m := newBenchmark(b)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for left := backlog; left > 0; left -= min(left, 200) {
					m.append(min(left, 200))
				}
				for left := backlog / 10; left > 0; left -= min(left, 200) {
					m.lock(min(left, 200))
				}
				b.StartTimer()
				if err := m.queue.Clear(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkClearTopic is BenchmarkClear by how many subscriptions a topic has.
func BenchmarkClearTopic(b *testing.B) {
	for _, subscriptions := range []int{1, 10, 100} {
		b.Run("subscriptions="+strconv.Itoa(subscriptions), func(b *testing.B) {
			m := newBenchmark(b)
			st := newStand(b, m.store)
			var queues []core.Partition
			for i := range subscriptions {
				queues = append(queues, st.subscribe(m.store, strconv.Itoa(i), false))
			}
			version := st.version(m.store)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for range 100 {
					if err := st.publish(m.store, version, to(kilobyte(), queues...)); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if err := st.own.In(m.store).Clear(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
