// Package clients lists and closes the connections of all bridges of a gateway.
package clients

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

// CensusTimeout is how long a census waits for connections that do not answer.
const CensusTimeout = 2 * time.Second

// Recent may return a census of this age, because a census interrupts each connection's goroutine.
const recentAge = 5 * time.Second

// Registry has the connections of all bridges. The zero value works.
type Registry struct {
	// Home is the ID of the gateway's own namespace, whose managers operate the gateway. They see
	// the connections of all namespaces; other managers see only connections of their namespace.
	Home string
	Log  *slog.Logger // may be nil

	open   sync.Map // each Member is a key
	begin  sync.Once
	asking chan struct{} // holds an element during a census
	closed atomic.Int64

	mu     sync.Mutex
	taken  time.Time
	recent []bridges.Connection
}

// Member is a connection. Its owner runs Describe and Evacuate as jobs, one at a time.
type Member interface {
	// Owned returns the connection's id in the log, and its owner. Neither changes.
	Owned() (id string, owner Owner)
	Describe() bridges.Connection
	// Evacuate begins to close the connection, and tells the client the reason. Calls in flight may
	// finish first.
	Evacuate(reason string)
}

type Owner interface {
	Post(job func()) // runs the job in another goroutine
	Ended() <-chan struct{}
}

func (c *Registry) Add(m Member) { c.open.Store(m, nil) }

func (c *Registry) Remove(m Member) { c.open.Delete(m) }

func (c *Registry) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		c.open.Range(func(m, _ any) bool { return yield(m.(Member)) })
	}
}

// Census lists all connections, the oldest first. It leaves out a connection whose owner has not
// answered when ctx ends, or after CensusTimeout. Censuses are taken one at a time.
func (c *Registry) Census(ctx context.Context) (all []bridges.Connection) {
	ctx, cancel := context.WithTimeout(ctx, CensusTimeout)
	defer cancel()
	c.begin.Do(func() { c.asking = make(chan struct{}, 1) })
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil
	}
	answers := map[Owner]chan bridges.Connection{}
	for m := range c.All() {
		answer := make(chan bridges.Connection, 1) // buffered, so that no owner blocks
		_, owner := m.Owned()
		answers[owner] = answer
		owner.Post(func() { answer <- m.Describe() })
	}
	for owner, answer := range answers {
		select {
		case told := <-answer:
			all = append(all, told)
			continue
		case <-owner.Ended():
		case <-ctx.Done():
		}
		select { // the answer may have arrived just before ctx ended
		case told := <-answer:
			all = append(all, told)
		default:
		}
	}
	slices.SortFunc(all, func(x, y bridges.Connection) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// Recent returns a census that may be recentAge old. The caller must not change it.
func (c *Registry) Recent() []bridges.Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken.IsZero() || time.Since(c.taken) >= recentAge {
		c.recent, c.taken = c.Census(context.Background()), time.Now()
	}
	return c.recent
}

// Evacuate closes the connection with this id, and tells the client bridges.ForcedText. It returns
// false if there is no such connection.
func (c *Registry) Evacuate(id string) bool {
	for m := range c.All() {
		if of, owner := m.Owned(); of == id {
			owner.Post(func() { m.Evacuate(bridges.ForcedText) })
			return true
		}
	}
	return false
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
	return c.visible(ctx, id), nil
}

func (c *Registry) visible(ctx context.Context, id core.Identity) []bridges.Connection {
	all := c.Census(ctx)
	if !c.IsOperator(id) {
		all = slices.DeleteFunc(all, func(o bridges.Connection) bool { return o.Namespace != id.Namespace() })
	}
	return all
}

// Holders returns the connections to this gateway that have locked sessions of an entity, by
// session. id needs the right Manage on the entity.
func (c *Registry) Holders(ctx context.Context, id core.Identity, entity string) (map[core.SessionKey]bridges.Connection, error) {
	if err := id.Check(core.Manage, entity, time.Now()); err != nil {
		return nil, err
	}
	holders := map[core.SessionKey]bridges.Connection{}
	for _, o := range c.visible(ctx, id) {
		for _, l := range o.Links {
			if l.Session != nil && o.Namespace == id.Namespace() && core.FoldName(core.ResourcePath(l.Entity)) == core.FoldName(entity) {
				holders[core.KeyOfSession(*l.Session)] = o
			}
		}
	}
	return holders, nil
}

// Close closes the connection with this id, and returns its description. Calls in flight may finish
// first. The error is NotFound if id has no right to see the connection.
func (c *Registry) Close(ctx context.Context, id core.Identity, connection string) (bridges.Connection, error) {
	found, err := c.Connections(ctx, id)
	if err != nil {
		return bridges.Connection{}, err
	}
	at := slices.IndexFunc(found, func(o bridges.Connection) bool { return o.ID == connection })
	if at < 0 || !c.Evacuate(connection) {
		return bridges.Connection{}, core.Refuse(core.NotFound, "This gateway has no connection '%.40s'. It may have ended.", connection)
	}
	closed := found[at]
	c.closed.Add(1)
	cmp.Or(c.Log, slog.Default()).Info("connection closed by an operator", "conn", closed.ID, "peer", closed.Peer, "namespace", closed.Namespace, "product", closed.Product, "policy", id[0].Policy)
	return closed, nil
}

// Count counts the connections of a recent census by protocol.
func (c *Registry) Count() map[string]int {
	counts := map[string]int{}
	for _, o := range c.Recent() {
		counts[o.Protocol]++
	}
	return counts
}

func (c *Registry) Closed() int64 { return c.closed.Load() }
