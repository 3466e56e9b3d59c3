package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

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

// clients takes censuses of the connected clients.
type clients struct {
	censuses []bridges.Census

	mu    sync.Mutex
	taken time.Time
	uses  map[string]*use // by protocol
}

// Clients adds the clients that the censuses find, and how many connections operators have closed.
func (m *Metrics) Clients(closed func() int64, censuses ...bridges.Census) {
	var c collector
	connections := c.gauge("connections", "Clients that are connected.", "protocol")
	channels := c.gauge("amqp_sessions", "AMQP sessions that clients have begun.", "protocol")
	links := c.gauge("links", "What clients have open to send to or receive from entities.", "protocol", "direction")
	sessions := c.gauge("link_sessions", "Receiving links that hold a session.", "protocol")
	forced := c.counter("connections_closed_by_operators_total", "Connections that operators have closed.")
	found := &clients{censuses: censuses}
	m.register(&c, func(s scrape) {
		found.mu.Lock()
		defer found.mu.Unlock()
		found.take()
		forced(s, float64(closed()))
		for protocol, u := range found.uses {
			label := strings.ReplaceAll(protocol, " ", "_")
			connections(s, float64(u.connections), label)
			if protocol != "websocket" { // which has none
				channels(s, float64(u.channels), label)
			}
			links(s, float64(u.sends), label, "send")
			links(s, float64(u.receives), label, "receive")
			sessions(s, float64(u.sessions), label)
		}
	})
}

// take takes a census, unless there is one of late.
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
