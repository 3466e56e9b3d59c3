package metrics

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/bridges"
)

const (
	// censusAge bounds the age of a census, which asks every connection for its state.
	censusAge     = 5 * time.Second
	censusTimeout = 2 * time.Second
)

// protocols have series even without connections.
var protocols = []string{"amqp", "amqp over websocket", "websocket"}

type use struct{ connections, channels, sends, receives, sessions int }

type clients struct {
	censuses []bridges.Census

	mu    sync.Mutex
	taken time.Time
	uses  map[string]*use // by protocol
}

func (m *Metrics) Clients(closed func() int64, censuses ...bridges.Census) {
	var c collector
	connections := c.gauge("connections", "Open connections, by protocol.", "protocol")
	channels := c.gauge("amqp_sessions", "Open AMQP sessions, which are not message sessions.", "protocol")
	links := c.gauge("links", "Open AMQP links and feeds, of clients that send or receive.", "protocol", "direction")
	sessions := c.gauge("link_sessions", "Receiving links that have locked a session.", "protocol")
	forced := c.counter("connections_closed_by_operators_total", "Connections that operators closed.")
	found := &clients{censuses: censuses}
	m.register(&c, func(s scrape) {
		found.mu.Lock()
		defer found.mu.Unlock()
		found.take()
		forced(s, float64(closed()))
		for protocol, u := range found.uses {
			label := strings.ReplaceAll(protocol, " ", "_")
			connections(s, float64(u.connections), label)
			if protocol != "websocket" { // the native protocol has no channels
				channels(s, float64(u.channels), label)
			}
			links(s, float64(u.sends), label, "send")
			links(s, float64(u.receives), label, "receive")
			sessions(s, float64(u.sessions), label)
		}
	})
}

func (c *clients) take() {
	if c.uses != nil && time.Since(c.taken) < censusAge {
		return
	}
	defer func() { c.taken = time.Now() }()
	ctx, cancel := context.WithTimeout(context.Background(), censusTimeout)
	defer cancel()
	c.uses = map[string]*use{}
	for _, p := range protocols {
		c.uses[p] = &use{}
	}
	for _, census := range c.censuses {
		for _, conn := range census.Connections(ctx) {
			u := c.uses[conn.Protocol]
			if u == nil {
				u = &use{}
				c.uses[conn.Protocol] = u
			}
			u.connections++
			u.channels += conn.Sessions
			for i := range conn.Links {
				l := &conn.Links[i]
				if l.Direction == bridges.Sends {
					u.sends++
					continue
				}
				u.receives++
				if l.Session != nil {
					u.sessions++
				}
			}
		}
	}
}

func (m *Metrics) Streams(open func() int) {
	var c collector
	streams := c.gauge("http_streams", "Open streams of server-sent events.")
	m.register(&c, func(s scrape) { streams(s, float64(open())) })
}

func (m *Metrics) KeyTries(tries func() uint64) {
	var c collector
	tried := c.counter("key_tries_total", "Namespaces whose keys were compared to find the namespace of a client that sends no host name.")
	m.register(&c, func(s scrape) { tried(s, float64(tries())) })
}

// HTTP returns a function to call for each HTTP request. Both arguments must have few values.
func (m *Metrics) HTTP() func(route string, status int) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: prefix, Name: "http_requests_total", Help: "HTTP requests that the gateway answered, including WebSockets, by route and status.",
	}, []string{"route", "status"})
	m.registry.MustRegister(requests)
	return func(route string, status int) { requests.WithLabelValues(route, strconv.Itoa(status)).Inc() }
}
