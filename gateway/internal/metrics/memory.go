package metrics

import (
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// Memory shows what of the gateway's memory is in use.
func (m *Metrics) Memory(messages, connections *fair.Pool, usage func() memory.Usage) {
	var c collector
	used := c.gauge("memory_used_bytes", "Memory that the gateway uses, without garbage and files that the kernel keeps.")
	available := c.gauge("memory_limit_bytes", "How much it may use.")
	level := c.gauge("memory_level", "0: normal, 1: caches are emptied, 2: sends of those who have sent much are refused, 3: those of all.")
	standing := c.gauge("connection_memory_bytes", "Memory of connections, sessions and links.")
	standingLimit := c.gauge("connection_memory_limit_bytes", "How much there may be of it.")
	held := c.gauge("message_memory_bytes", "Memory of messages in progress.")
	limit := c.gauge("message_memory_limit_bytes", "How much there may be of it.")
	waiting := c.gauge("message_memory_waiting_connections", "Connections that are not read because it is in use.")
	refused := c.counter("message_memory_refusals_total", "Messages and requests that were refused because it was in use.")
	m.register(&c, func(s scrape) {
		u := usage()
		used(s, float64(u.Used))
		available(s, float64(u.Limit))
		level(s, float64(u.Level))
		of := connections.Stats()
		standing(s, float64(of.Held))
		standingLimit(s, float64(of.Limit))
		of = messages.Stats()
		held(s, float64(of.Held))
		limit(s, float64(of.Limit))
		waiting(s, float64(of.Waiting))
		refused(s, float64(of.Refused))
	})
}
