package broker

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// BenchmarkChangeRule adds a correlation rule to a subscription with so many,
// publishes a message, removes the rule and publishes another.
func BenchmarkChangeRule(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("rules=", n), func(b *testing.B) {
			of := func(i int) core.Rule {
				id := fmt.Sprint("c", i)
				return core.Rule{Name: id, Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{CorrelationID: &id}}}
			}
			br := benchTopic(b, memory.New(memory.Options{}), 1, of)
			sub := core.SubscriptionPath("t", "s0")
			for i := 1; i < n; i++ {
				if _, err := br.CreateRule(b.Context(), root, sub, of(i)); err != nil {
					b.Fatal(err)
				}
			}
			sender, err := br.OpenSender(b.Context(), root, core.At("t"), nil)
			if err != nil {
				b.Fatal(err)
			}
			publish := func() {
				if a := sender.Send(b.Context(), each(text("m"))); a[0].Err != nil {
					b.Fatal(a[0].Err)
				}
			}
			publish()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := br.CreateRule(b.Context(), root, sub, of(n)); err != nil {
					b.Fatal(err)
				}
				publish()
				if err := br.DeleteRule(b.Context(), root, sub, fmt.Sprint("c", n)); err != nil {
					b.Fatal(err)
				}
				publish()
			}
		})
	}
}
