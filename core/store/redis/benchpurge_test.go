package redis_test

import (
	"fmt"
	"testing"
)

// BenchmarkPurge removes so many messages from a queue that holds nothing else,
// and from one in which a message is locked. It measures per message.
func BenchmarkPurge(b *testing.B) {
	for _, backlog := range []int{100, 10_000} {
		for _, locked := range []int{0, 1} {
			b.Run(fmt.Sprintf("messages=%d/locked=%d", backlog, locked), func(b *testing.B) {
				m := newBenchmark(b)
				for left := locked; left > 0; left-- {
					m.append(1)
					m.lock(1)
				}
				m.begin()
				for at := 0; b.Loop(); at++ {
					if at%backlog != 0 {
						continue
					}
					b.StopTimer()
					for left := backlog; left > 0; left -= min(left, 200) {
						m.append(min(left, 200))
					}
					before := m.cpu()
					b.StartTimer()
					if n, err := m.queue.Purge(b.Context(), backlog); err != nil || n != backlog {
						b.Fatalf("%d removed, %v", n, err)
					}
					b.StopTimer()
					m.spent += m.cpu() - before
					b.StartTimer()
				}
				b.ReportMetric(m.spent*1e6/float64(max(b.N, backlog)), "server-µs/msg")
			})
		}
	}
}
