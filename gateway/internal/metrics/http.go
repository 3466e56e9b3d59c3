package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Streams shows how many streams of server-sent events are open.
func (m *Metrics) Streams(open func() int) {
	var c collector
	streams := c.gauge("http_streams", "Streams of server-sent events that are open.")
	m.register(&c, func(s scrape) { streams(s, float64(open())) })
}

// KeyTries shows how often a key was tried for a peer that did not name its namespace
// by a host.
func (m *Metrics) KeyTries(tries func() uint64) {
	var c collector
	tried := c.counter("key_tries_total", "Namespaces whose keys were tried for a peer that did not name one by a host.")
	m.register(&c, func(s scrape) { tried(s, float64(tries())) })
}

// HTTP returns what is to be called for each HTTP request, by its route and the
// answer's status, of both of which there are few.
func (m *Metrics) HTTP() func(route string, status int) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: prefix, Name: "http_requests_total", Help: "HTTP requests that were answered, WebSockets included, by route and status.",
	}, []string{"route", "status"})
	m.registry.MustRegister(requests)
	return func(route string, status int) { requests.WithLabelValues(route, strconv.Itoa(status)).Inc() }
}
