package metrics

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func (m *Metrics) Plugins(states func() []host.State) {
	var c collector
	ready := c.gauge("plugin_ready", "1 if the plugin answers.", "plugin")
	calls := c.counter("plugin_calls_total", "Calls of the plugin, by result: answered, late or failed.", "plugin", "result")
	messages := c.counter("plugin_messages_total", "Messages that the plugin has answered.", "plugin")
	waiting := c.gauge("plugin_waiting_messages", "Messages that wait for the plugin.", "plugin")
	launches := c.counter("plugin_launches_total", "How often the plugin's process has started.", "plugin")
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

func newStages(namespace string, counts func() []broker.StageCounts) *collector {
	c := inNamespace(namespace)
	messages := c.counter("stage_messages_total", "Decisions of the stages of pipelines, by result.", "stage", "plugin", "result")
	routed := c.counter("stage_routed_messages_total", "Messages that a stage routed to other entities, whether or not this entity also keeps them.", "stage", "plugin")
	mismatched := c.counter("schema_mismatches_total", "Messages that did not match the schema of their queue or topic, whether the gateway refused or accepted them.")
	c.collect = func(s scrape) {
		for _, n := range counts() {
			result := func(name string, count int64) { messages(s, float64(count), n.Kind, n.Router, name) }
			result("passed", max(n.Judged-n.Dropped-n.DeadLettered-n.Rejected, 0))
			result("dropped", n.Dropped)
			result("dead_lettered", n.DeadLettered)
			result("rejected", n.Rejected)
			result("parked", n.Parked)
			result("passed_unjudged", n.Passed)
			result("refused", n.Refused)
			if n.Kind == core.StageSchema.String() {
				mismatched(s, float64(n.Mismatched))
			}
			routed(s, float64(n.Routed), n.Kind, n.Router)
		}
	}
	return c
}
