package metrics

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// Plugins shows the states of the plugins.
func (m *Metrics) Plugins(states func() []host.State) {
	var c collector
	ready := c.gauge("plugin_ready", "Whether the plugin answers.", "plugin")
	calls := c.counter("plugin_calls_total", "Calls of the plugin: answered, late, or failed.", "plugin", "result")
	messages := c.counter("plugin_messages_total", "Messages that the plugin has judged.", "plugin")
	waiting := c.gauge("plugin_waiting_messages", "Messages that wait for the plugin.", "plugin")
	launches := c.counter("plugin_launches_total", "Starts of the plugin's process that succeeded.", "plugin")
	m.register(&c, func(s scrape) {
		for _, p := range states() {
			ready(s, truth(p.Condition == host.Ready), p.Name)
			calls(s, float64(p.Calls.Answered), p.Name, "answered")
			calls(s, float64(p.Calls.Late), p.Name, "late")
			calls(s, float64(p.Calls.Failed), p.Name, "failed")
			messages(s, float64(p.Calls.Messages), p.Name)
			waiting(s, float64(p.Calls.Waiting), p.Name)
			launches(s, float64(p.Launches), p.Name)
		}
	})
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// newStages shows the counts of a namespace's pipeline stages, added up over entities.
func newStages(namespace string, counts func() []broker.StageCounts) *collector {
	c := inNamespace(namespace)
	messages := c.counter("stage_messages_total", "Messages that came to a stage of a pipeline, by what became of them there.", "stage", "plugin", "result")
	routed := c.counter("stage_routed_messages_total", "Messages that a stage sent to other entities, kept here beside that or not.", "stage", "plugin")
	mismatched := c.counter("schema_mismatches_total", "Messages that broke the schema of their queue or topic, whatever became of them.")
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
			sum.Mismatched += c.Mismatched
			sum.Dropped += c.Dropped
			sum.DeadLettered += c.DeadLettered
			sum.Rejected += c.Rejected
			sum.Routed += c.Routed
			sum.Parked += c.Parked
			sum.Passed += c.Passed
			sum.Refused += c.Refused
		}
		for at, sum := range sums {
			result := func(name string, n int64) { messages(s, float64(n), at.kind, at.plugin, name) }
			result("passed", max(sum.Judged-sum.Dropped-sum.DeadLettered-sum.Rejected, 0))
			result("dropped", sum.Dropped)
			result("dead_lettered", sum.DeadLettered)
			result("rejected", sum.Rejected)
			result("parked", sum.Parked)
			result("passed_unjudged", sum.Passed)
			result("refused", sum.Refused)
			if at.kind == core.StageSchema.String() {
				mismatched(s, float64(sum.Mismatched))
			}
			routed(s, float64(sum.Routed), at.kind, at.plugin)
		}
	}
	return c
}
