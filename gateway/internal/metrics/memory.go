package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// messageMemory shows the memory of messages in progress.
type messageMemory struct {
	budget, connections           *fair.Pool
	usage                         func() memory.Usage
	held, limit, waiting, refused *prometheus.Desc
	standing, standingLimit       *prometheus.Desc
	used, available, level        *prometheus.Desc
}

// Memory shows what of the gateway's memory is in use.
func (m *Metrics) Memory(messages, connections *fair.Pool, usage func() memory.Usage) {
	m.registry.MustRegister(&messageMemory{
		budget: messages, connections: connections, usage: usage,
		standing:      describe("connection_memory_bytes", "Memory of connections, sessions and links."),
		standingLimit: describe("connection_memory_limit_bytes", "How much there may be of it."),
		used:          describe("memory_used_bytes", "Memory that the gateway uses, without garbage and files that the kernel keeps."),
		available:     describe("memory_limit_bytes", "How much it may use."),
		level:         describe("memory_level", "0: normal, 1: caches are emptied, 2: sends of those who have sent much are refused, 3: those of all."),

		held:    describe("message_memory_bytes", "Memory of messages in progress."),
		limit:   describe("message_memory_limit_bytes", "How much there may be of it."),
		waiting: describe("message_memory_waiting_connections", "Connections that are not read because it is in use."),
		refused: describe("message_memory_refusals_total", "Messages and requests that were refused because it was in use."),
	})
}

// Describe implements prometheus.Collector.
func (m *messageMemory) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.held, m.limit, m.standing, m.standingLimit, m.used, m.available, m.level} {
		ch <- d
	}
	ch <- m.waiting
	ch <- m.refused
}

// Collect implements prometheus.Collector.
func (m *messageMemory) Collect(ch chan<- prometheus.Metric) {
	u := m.usage()
	gauge(ch, m.used, float64(u.Used))
	gauge(ch, m.available, float64(u.Limit))
	gauge(ch, m.level, float64(u.Level))
	s := m.connections.Stats()
	gauge(ch, m.standing, float64(s.Held))
	gauge(ch, m.standingLimit, float64(s.Limit))
	s = m.budget.Stats()
	gauge(ch, m.held, float64(s.Held))
	gauge(ch, m.limit, float64(s.Limit))
	gauge(ch, m.waiting, float64(s.Waiting))
	counter(ch, m.refused, float64(s.Refused))
}
