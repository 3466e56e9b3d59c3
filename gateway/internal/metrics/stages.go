package metrics

import "github.com/crosstown-mq/crosstown/core/broker"

// newStages shows what pipelines of a namespace do, as counts returns, added up over entities.
func newStages(namespace string, counts func() []broker.StageCounts) *collector {
	c := inNamespace(namespace)
	messages := c.counter("stage_messages_total", "Messages that came to a stage of a pipeline, by what became of them there.", "stage", "plugin", "result")
	routed := c.counter("stage_routed_messages_total", "Messages that a stage sent to other entities, kept here beside that or not.", "stage", "plugin")
	c.collect = func(s scrape) {
		type stage struct{ kind, plugin string }
		sums := map[stage]*broker.StageCounts{}
		for _, c := range counts() {
			at := stage{c.Kind, c.Router}
			sum := sums[at]
			if sum == nil {
				sum = &broker.StageCounts{}
				sums[at] = sum
			}
			sum.Judged += c.Judged
			sum.Dropped += c.Dropped
			sum.DeadLettered += c.DeadLettered
			sum.Routed += c.Routed
			sum.Parked += c.Parked
			sum.Passed += c.Passed
			sum.Refused += c.Refused
		}
		for at, sum := range sums {
			result := func(name string, n int64) { messages(s, float64(n), at.kind, at.plugin, name) }
			result("passed", max(sum.Judged-sum.Dropped-sum.DeadLettered, 0))
			result("dropped", sum.Dropped)
			result("dead_lettered", sum.DeadLettered)
			result("parked", sum.Parked)
			result("passed_unjudged", sum.Passed)
			result("refused", sum.Refused)
			routed(s, float64(sum.Routed), at.kind, at.plugin)
		}
	}
	return c
}
