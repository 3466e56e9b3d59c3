package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/bridges/budget"
)

// messageMemory shows the memory of messages in progress.
type messageMemory struct {
	budget                        *budget.Budget
	held, limit, waiting, refused *prometheus.Desc
}

// Memory shows the gateway's budget of memory for messages in progress.
func (m *Metrics) Memory(b *budget.Budget) {
	m.registry.MustRegister(&messageMemory{
		budget:  b,
		held:    describe("message_memory_bytes", "Memory of messages in progress."),
		limit:   describe("message_memory_limit_bytes", "How much there may be of it."),
		waiting: describe("message_memory_waiting_connections", "Connections that are not read because it is in use."),
		refused: describe("message_memory_refusals_total", "Messages and requests that were refused because it was in use."),
	})
}

// Describe implements prometheus.Collector.
func (m *messageMemory) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.held
	ch <- m.limit
	ch <- m.waiting
	ch <- m.refused
}

// Collect implements prometheus.Collector.
func (m *messageMemory) Collect(ch chan<- prometheus.Metric) {
	s := m.budget.Stats()
	gauge(ch, m.held, float64(s.Held))
	gauge(ch, m.limit, float64(s.Limit))
	gauge(ch, m.waiting, float64(s.Waiting))
	counter(ch, m.refused, float64(s.Refused))
}
