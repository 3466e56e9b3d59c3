package metrics

import "github.com/crosstown-mq/crosstown/gateway/internal/listen"

// Admission shows how many connections there are, and what strangers take.
func (m *Metrics) Admission(state func() listen.AdmissionState) {
	var c collector
	connections := c.gauge("open_connections", "Connections that are open, of any protocol and HTTP.")
	strangers := c.gauge("stranger_connections", "Connections without a proven identity.")
	shut := c.counter("shut_connections_total", "Connections without a proven identity that were closed because there were too many strangers, bytes of strangers, or connections.", "of")
	m.register(&c, func(s scrape) {
		held := state()
		connections(s, float64(held.Connections))
		strangers(s, float64(held.Strangers))
		for of, n := range held.Closed {
			shut(s, float64(n), of)
		}
	})
}
