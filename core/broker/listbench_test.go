package broker

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// BenchmarkListPage reads a page of a hundred queues, the last one, with their
// counts. It measures per page.
func BenchmarkListPage(b *testing.B) {
	for _, queues := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			br := New(memory.New(memory.Options{}), Options{Namespace: "ns"})
			b.Cleanup(br.stop)
			for i := range queues {
				if _, err := br.CreateEntity(b.Context(), root, core.Queue, fmt.Sprintf("q%05d", i), core.DefaultSettings(core.Queue), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				es, _, err := br.Entities(b.Context(), root, core.Listing{Kind: core.Queue}, queues-100, 100)
				if err != nil || len(es) != 100 {
					b.Fatalf("%d queues, %v", len(es), err)
				}
			}
		})
	}
}
