package metrics

import "github.com/crosstown-mq/crosstown/plugins/host"

// Plugins shows how the plugins do whose states are returned.
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
