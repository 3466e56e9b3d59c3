package metrics

import "github.com/crosstown-mq/crosstown/bridges/webhooks"

// Pushes shows how the pushes do that are in force.
func (m *Metrics) Pushes(list func() []*webhooks.Push) {
	var c collector
	attempts := c.counter("push_attempts_total", "Requests of a push: delivered, failed and repeated, or dead_lettered.", "namespace", "push", "result")
	underWay := c.gauge("push_under_way_requests", "Requests of a push that are not answered yet.", "namespace", "push")
	m.register(&c, func(s scrape) {
		for _, each := range list() {
			p := each.State()
			attempts(s, float64(p.Delivered), each.Namespace, p.Name, "delivered")
			attempts(s, float64(p.Failed), each.Namespace, p.Name, "failed")
			attempts(s, float64(p.DeadLettered), each.Namespace, p.Name, "dead_lettered")
			underWay(s, float64(p.UnderWay), each.Namespace, p.Name)
		}
	})
}
