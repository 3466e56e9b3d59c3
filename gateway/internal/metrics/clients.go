package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crosstown-mq/crosstown/bridges"
)

const (
	// censusAge is how old a census may be: each asks every connection's owner.
	censusAge     = 5 * time.Second
	censusTimeout = 2 * time.Second
)

// protocols are shown even without connections.
var protocols = []string{"amqp", "amqp over websocket", "websocket"}

// use is what clients of one protocol have open.
type use struct{ connections, channels, sends, receives, sessions int }

// clients shows the connected clients.
type clients struct {
	forced                                 func() int64
	censuses                               []bridges.Census
	connections, channels, links, sessions *prometheus.Desc
	closed                                 *prometheus.Desc

	mu    sync.Mutex
	taken time.Time
	uses  map[string]*use // by protocol
}

// Clients adds the clients that the censuses find, and how many connections operators have closed.
func (m *Metrics) Clients(closed func() int64, censuses ...bridges.Census) {
	m.registry.MustRegister(&clients{
		forced:      closed,
		closed:      describe("connections_closed_by_operators_total", "Connections that operators have closed."),
		censuses:    censuses,
		connections: describe("connections", "Clients that are connected.", "protocol"),
		channels:    describe("amqp_sessions", "AMQP sessions that clients have begun.", "protocol"),
		links:       describe("links", "What clients have open to send to or receive from entities.", "protocol", "direction"),
		sessions:    describe("link_sessions", "Receiving links that hold a session.", "protocol"),
	})
}

// Describe implements prometheus.Collector.
func (c *clients) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.connections
	ch <- c.channels
	ch <- c.links
	ch <- c.sessions
	ch <- c.closed
}

// Collect implements prometheus.Collector.
func (c *clients) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counter(ch, c.closed, float64(c.forced()))
	if c.uses == nil || time.Since(c.taken) >= censusAge {
		c.take()
		c.taken = time.Now()
	}
	for protocol, u := range c.uses {
		label := strings.ReplaceAll(protocol, " ", "_")
		gauge(ch, c.connections, float64(u.connections), label)
		if protocol != "websocket" { // which has none
			gauge(ch, c.channels, float64(u.channels), label)
		}
		gauge(ch, c.links, float64(u.sends), label, "send")
		gauge(ch, c.links, float64(u.receives), label, "receive")
		gauge(ch, c.sessions, float64(u.sessions), label)
	}
}

func (c *clients) take() {
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
				if !l.Receives {
					u.sends++
					continue
				}
				u.receives++
				if l.Holds {
					u.sessions++
				}
			}
		}
	}
}
