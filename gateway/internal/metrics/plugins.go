package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/plugins/host"
)

// plugins shows how plugins do.
type plugins struct {
	states                                    func() []host.State
	ready, calls, messages, waiting, launches *prometheus.Desc
}

// Plugins shows the states that states returns.
func (m *Metrics) Plugins(states func() []host.State) {
	m.registry.MustRegister(&plugins{
		states:   states,
		ready:    describe("plugin_ready", "Whether the plugin answers.", "plugin"),
		calls:    describe("plugin_calls_total", "Calls of the plugin: answered, late, or failed.", "plugin", "result"),
		messages: describe("plugin_messages_total", "Messages that the plugin has judged.", "plugin"),
		waiting:  describe("plugin_waiting_messages", "Messages that wait for the plugin.", "plugin"),
		launches: describe("plugin_launches_total", "Starts of the plugin's process that succeeded.", "plugin"),
	})
}

// Describe implements prometheus.Collector.
func (p *plugins) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.ready, p.calls, p.messages, p.waiting, p.launches} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *plugins) Collect(ch chan<- prometheus.Metric) {
	for _, s := range p.states() {
		ready := 0.0
		if s.Condition == host.Ready {
			ready = 1
		}
		gauge(ch, p.ready, ready, s.Name)
		counter(ch, p.calls, float64(s.Calls.Answered), s.Name, "answered")
		counter(ch, p.calls, float64(s.Calls.Late), s.Name, "late")
		counter(ch, p.calls, float64(s.Calls.Failed), s.Name, "failed")
		counter(ch, p.messages, float64(s.Calls.Messages), s.Name)
		gauge(ch, p.waiting, float64(s.Calls.Waiting), s.Name)
		counter(ch, p.launches, float64(s.Launches), s.Name)
	}
}
