package redis_test

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// BenchmarkList lists all queues of a namespace in pages of a hundred, with
// what they and their sub-queues hold; every tenth holds a message. It measures per queue.
func BenchmarkList(b *testing.B) {
	const page = 100
	for _, queues := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			m := newBenchmark(b)
			for i := range queues - 1 { // newBenchmark has made one
				p := queue(b, m.store)
				if i%10 == 0 {
					send(b, m.store, p, "x")
				}
			}
			m.begin()
			for at := 0; b.Loop(); at++ {
				if at%queues != 0 {
					continue
				}
				for skip := 0; skip < queues; skip += page {
					es, err := m.store.Entities(b.Context(), "ns", core.Listing{Kind: core.Queue}, skip, page)
					if err != nil || len(es) != min(page, queues-skip) {
						b.Fatalf("%d queues, %v", len(es), err)
					}
					var ps []core.Partition
					for i := range es {
						for sub := range core.SubQueues {
							ps = append(ps, es[i].Partition(0, sub))
						}
					}
					for _, c := range m.store.StatsOf(b.Context(), ps) {
						if c.Err != nil {
							b.Fatal(c.Err)
						}
					}
				}
			}
			m.end(max(b.N, queues))
		})
	}
}
