package metrics

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func (m *Metrics) Plugins(states func() []host.State) {
	m.register(func(s *scrape) {
		for _, p := range states() {
			s.gauge("plugin_ready", "1 if the plugin answers.", truth(p.Condition == host.Ready), "plugin", p.Name)
			for result, n := range map[string]int64{"answered": p.Calls.Answered, "late": p.Calls.Late, "failed": p.Calls.Failed} {
				s.counter("plugin_calls_total", "Calls of the plugin, by result: answered, late or failed.", float64(n), "plugin", p.Name, "result", result)
			}
			s.counter("plugin_messages_total", "Messages that the plugin has answered.", float64(p.Calls.Messages), "plugin", p.Name)
			s.gauge("plugin_waiting_messages", "Messages that wait for the plugin.", float64(p.Calls.Waiting), "plugin", p.Name)
			s.counter("plugin_launches_total", "How often the plugin's process has started.", float64(p.Launches), "plugin", p.Name)
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
	return inNamespace(namespace, func(s *scrape) {
		for _, n := range counts() {
			for result, count := range map[string]int64{
				"passed":  max(n.Judged-n.Dropped-n.DeadLettered-n.Rejected, 0),
				"dropped": n.Dropped, "dead_lettered": n.DeadLettered, "rejected": n.Rejected,
				"parked": n.Parked, "passed_unjudged": n.Passed, "refused": n.Refused,
			} {
				s.counter("stage_messages_total", "Decisions of the stages of pipelines, by result.", float64(count), "stage", n.Kind, "plugin", n.Router, "result", result)
			}
			if n.Kind == core.StageSchema.String() {
				s.counter("schema_mismatches_total", "Messages that did not match the schema of their queue or topic, whether the gateway refused or accepted them.", float64(n.Mismatched))
			}
			s.counter("stage_routed_messages_total", "Messages that a stage routed to other entities, whether or not this entity also keeps them.", float64(n.Routed), "stage", n.Kind, "plugin", n.Router)
		}
	})
}
