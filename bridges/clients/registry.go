// Package clients lists and closes the connections of all bridges of a gateway.
package clients

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

const censusTime = 5 * time.Second

// Count may return a result of this age, because counting interrupts each connection's goroutine.
const countAge = 5 * time.Second

type Registry struct {
	// Home is the ID of the gateway's own namespace, whose managers operate the gateway. They see
	// the connections of all namespaces; other managers see only connections of their namespace.
	Home string
	Log  *slog.Logger // may be nil

	mu       sync.Mutex
	censuses []bridges.Census
	closed   atomic.Int64

	counting sync.Mutex
	counted  time.Time
	counts   map[string]int // by protocol
}

func (c *Registry) Add(bridge bridges.Census) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.censuses = append(c.censuses, bridge)
}

func (c *Registry) all() []bridges.Census {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.censuses)
}

func (c *Registry) IsOperator(id core.Identity) bool {
	return id.NamespaceID() == c.Home && id.Check(core.Manage, "", time.Now()) == nil
}

// Connections lists the connections of id's namespace, or of all namespaces if id is an operator.
// id needs the right Manage on its namespace.
func (c *Registry) Connections(ctx context.Context, id core.Identity) ([]bridges.Connection, error) {
	if err := id.Check(core.Manage, "", time.Now()); err != nil {
		return nil, err
	}
	var all []bridges.Connection
	c.ask(ctx, id, func(_ bridges.Census, found []bridges.Connection) { all = append(all, found...) })
	return all, nil
}

// ask calls f for each bridge, with those of its connections that id may see.
func (c *Registry) ask(ctx context.Context, id core.Identity, f func(bridges.Census, []bridges.Connection)) {
	ctx, cancel := context.WithTimeout(ctx, censusTime)
	defer cancel()
	for _, census := range c.all() {
		found := census.Connections(ctx)
		if !c.IsOperator(id) {
			found = slices.DeleteFunc(found, func(o bridges.Connection) bool { return o.Namespace != id.Namespace() })
		}
		f(census, found)
	}
}

// Holders returns the connections to this gateway that have locked sessions of an entity, by
// session. id needs the right Manage on the entity.
func (c *Registry) Holders(ctx context.Context, id core.Identity, entity string) (map[core.SessionKey]bridges.Connection, error) {
	if err := id.Check(core.Manage, entity, time.Now()); err != nil {
		return nil, err
	}
	holders := map[core.SessionKey]bridges.Connection{}
	c.ask(ctx, id, func(_ bridges.Census, found []bridges.Connection) {
		for _, o := range found {
			for _, l := range o.Links {
				if l.Session != nil && o.Namespace == id.Namespace() && core.FoldName(core.ResourcePath(l.Entity)) == core.FoldName(entity) {
					holders[core.KeyOfSession(*l.Session)] = o
				}
			}
		}
	})
	return holders, nil
}

// Close closes the connection with this id, and returns its description. Calls in flight may finish
// first. The error is NotFound if id has no right to see the connection.
func (c *Registry) Close(ctx context.Context, id core.Identity, connection string) (bridges.Connection, error) {
	if err := id.Check(core.Manage, "", time.Now()); err != nil {
		return bridges.Connection{}, err
	}
	var closed *bridges.Connection
	c.ask(ctx, id, func(census bridges.Census, found []bridges.Connection) {
		at := slices.IndexFunc(found, func(o bridges.Connection) bool { return o.ID == connection })
		if at >= 0 && census.CloseConnection(connection) {
			closed = &found[at]
		}
	})
	if closed == nil {
		return bridges.Connection{}, core.Refuse(core.NotFound, "This gateway has no connection '%.40s'. It may have ended.", connection)
	}
	c.closed.Add(1)
	cmp.Or(c.Log, slog.Default()).Info("connection closed by an operator", "conn", closed.ID, "peer", closed.Peer, "namespace", closed.Namespace, "product", closed.Product, "policy", id[0].Policy)
	return *closed, nil
}

// Count counts the connections in all namespaces, by protocol. The result may be countAge old.
func (c *Registry) Count(ctx context.Context) map[string]int {
	c.counting.Lock()
	defer c.counting.Unlock()
	if c.counts != nil && time.Since(c.counted) < countAge {
		return c.counts
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), censusTime)
	defer cancel()
	counts := map[string]int{}
	for _, census := range c.all() {
		for _, o := range census.Connections(ctx) {
			counts[o.Protocol]++
		}
	}
	c.counts, c.counted = counts, time.Now()
	return counts
}

func (c *Registry) Closed() int64 { return c.closed.Load() }
