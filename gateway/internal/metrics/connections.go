package metrics

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/bridges"
)

// protocols are those with series even when they have no connections.
var protocols = []string{"amqp", "amqp over websocket", "websocket"}

// Clients shows the connections of recent.
func (m *Metrics) Clients(closed func() int64, recent func() []bridges.Connection) {
	show := func(s *scrape, conn *bridges.Connection, n float64) {
		label := strings.ReplaceAll(conn.Protocol, " ", "_")
		s.gauge("connections", "Open connections, by protocol.", n, "protocol", label)
		if conn.Protocol != "websocket" { // this protocol has no AMQP sessions
			s.gauge("amqp_sessions", "Open AMQP sessions, which are not message sessions.", float64(conn.Sessions), "protocol", label)
		}
		var sends, receives, held float64
		for i := range conn.Links {
			if l := &conn.Links[i]; l.Direction == bridges.Sends {
				sends++
			} else if receives++; l.Session != nil {
				held++
			}
		}
		for direction, n := range map[string]float64{"send": sends, "receive": receives} {
			s.gauge("links", "Open AMQP links and feeds, of clients that send or receive.", n, "protocol", label, "direction", direction)
		}
		s.gauge("link_sessions", "Receiving links that have locked a session.", held, "protocol", label)
	}
	m.register(func(s *scrape) {
		s.counter("connections_closed_by_operators_total", "Connections that operators closed.", float64(closed()))
		for _, p := range protocols {
			show(s, &bridges.Connection{Protocol: p}, 0)
		}
		streams := 0.0
		for _, conn := range recent() {
			if conn.Protocol == "event stream" {
				streams++
			} else {
				show(s, &conn, 1)
			}
		}
		s.gauge("http_streams", "Open streams of server-sent events.", streams)
	})
}

func (m *Metrics) KeyTries(tries func() uint64) {
	m.register(func(s *scrape) {
		s.counter("key_tries_total", "Namespaces whose keys were compared to find the namespace of a client that sends no host name.", float64(tries()))
	})
}

// HTTP returns a function to call for each HTTP request. Both arguments should have few values.
func (m *Metrics) HTTP() func(route string, status int) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: prefix, Name: "http_requests_total", Help: "HTTP requests that the gateway answered, including WebSockets, by route and status.",
	}, []string{"route", "status"})
	m.registry.MustRegister(requests)
	return func(route string, status int) { requests.WithLabelValues(route, strconv.Itoa(status)).Inc() }
}
