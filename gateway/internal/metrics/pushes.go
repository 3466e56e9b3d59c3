package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/bridges/webhooks"
)

// Pushes shows how the pushes do that are in force.
func (m *Metrics) Pushes(list func() []*webhooks.Push) {
	m.registry.MustRegister(&pushes{
		list,
		describe("push_attempts_total", "Requests of a push: delivered, failed and repeated, or dead_lettered.", "namespace", "push", "result"),
		describe("push_under_way_requests", "Requests of a push that are not answered yet.", "namespace", "push"),
	})
}

type pushes struct {
	list               func() []*webhooks.Push
	attempts, underWay *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (p *pushes) Describe(ch chan<- *prometheus.Desc) {
	ch <- p.attempts
	ch <- p.underWay
}

// Collect implements prometheus.Collector.
func (p *pushes) Collect(ch chan<- prometheus.Metric) {
	for _, each := range p.list() {
		s := each.State()
		counter(ch, p.attempts, float64(s.Delivered), each.Namespace, s.Name, "delivered")
		counter(ch, p.attempts, float64(s.Failed), each.Namespace, s.Name, "failed")
		counter(ch, p.attempts, float64(s.DeadLettered), each.Namespace, s.Name, "dead_lettered")
		gauge(ch, p.underWay, float64(s.UnderWay), each.Namespace, s.Name)
	}
}
