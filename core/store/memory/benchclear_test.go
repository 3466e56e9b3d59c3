package memory_test

import (
	"strconv"
	"testing"
)

// BenchmarkClear is how long a caller waits until a queue of so many messages is
// empty.
func BenchmarkClear(b *testing.B) {
	for _, backlog := range []int{1, 1_000, 100_000} {
		b.Run("messages="+strconv.Itoa(backlog), func(b *testing.B) {
			m := newBench(b, 1)
			for b.Loop() {
				b.StopTimer()
				for range backlog {
					m.append()
				}
				b.StartTimer()
				if err := m.queue.Clear(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
