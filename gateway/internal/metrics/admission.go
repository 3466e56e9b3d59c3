package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// admission shows how many connections there are, and what strangers take.
type admission struct {
	state                        func() listen.AdmissionState
	connections, strangers, shut *prometheus.Desc
}

// Admission shows what a listen.Admission counts.
func (m *Metrics) Admission(state func() listen.AdmissionState) {
	m.registry.MustRegister(&admission{
		state:       state,
		connections: describe("open_connections", "Connections that are open, of any protocol and HTTP."),
		strangers:   describe("stranger_connections", "Connections without a proven identity."),
		shut:        describe("shut_connections_total", "Connections without a proven identity that were closed because there were too many strangers, bytes of strangers, or connections.", "of"),
	})
}

// Describe implements prometheus.Collector.
func (a *admission) Describe(ch chan<- *prometheus.Desc) {
	ch <- a.connections
	ch <- a.strangers
	ch <- a.shut
}

// Collect implements prometheus.Collector.
func (a *admission) Collect(ch chan<- prometheus.Metric) {
	s := a.state()
	gauge(ch, a.connections, float64(s.Connections))
	gauge(ch, a.strangers, float64(s.Strangers))
	for of, n := range s.Closed {
		counter(ch, a.shut, float64(n), of)
	}
}
