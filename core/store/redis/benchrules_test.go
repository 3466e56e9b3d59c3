package redis_test

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// BenchmarkChangeRule adds a rule to a subscription that has so many, and
// removes it. It measures per change.
func BenchmarkChangeRule(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			m := newBenchmark(b)
			st := newStand(b, m.store)
			of := func(i int) core.Rule {
				id := fmt.Sprint("c", i)
				return core.Rule{Name: id, Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{CorrelationID: &id}}}
			}
			e := core.Entity{
				Namespace: "ns", Kind: core.Subscription, Name: core.SubscriptionPath(st.topic.Name, "s"), ID: st.topic.ID + "s",
				TopicID: st.topic.ID, Partitions: 1, Settings: core.DefaultSettings(core.Subscription),
			}
			for i := range n {
				e.Rules = append(e.Rules, of(i))
			}
			e, err := m.store.CreateEntity(b.Context(), e, core.NamespaceQuotas{})
			if err != nil {
				b.Fatal(err)
			}
			m.begin()
			for remove := false; b.Loop(); remove = !remove {
				if e, _, err = m.store.ChangeRule(b.Context(), e, core.RuleChange{Rule: of(n), Remove: remove}); err != nil {
					b.Fatal(err)
				}
			}
			m.end(b.N)
		})
	}
}
