package amqp

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
)

const (
	// censusTimeout ends a census that some connection's owner keeps waiting.
	censusTimeout = 2 * time.Second
	// maxProduct bounds what is kept of what a client calls itself, in bytes.
	maxProduct = 256
)

var _ bridges.Census = (*Bridge)(nil)

// Connections lists the connections, the oldest first. Each connection's owner is asked; one that has not answered when
// ctx or a time of two seconds ends is left out. There is one census at a time.
func (b *Bridge) Connections(ctx context.Context) []bridges.Connection {
	ctx, cancel := context.WithTimeout(ctx, censusTimeout)
	defer cancel()
	select {
	case b.census <- struct{}{}:
		defer func() { <-b.census }()
	case <-ctx.Done():
		return nil
	}
	b.mu.Lock()
	conns := slices.Collect(maps.Keys(b.conns))
	b.mu.Unlock()
	owners := make([]*link.Owner, len(conns))
	for i, c := range conns {
		owners[i] = c.owner
	}
	all := link.Ask(ctx, owners, func(i int) bridges.Connection { return conns[i].describe() })
	slices.SortFunc(all, func(x, y bridges.Connection) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// CloseConnection implements bridges.Census.
func (b *Bridge) CloseConnection(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if c.id == id {
			c.owner.Post(func() { c.drain(bridges.ForcedText) })
			return true
		}
	}
	return false
}

// enter counts a connection among those that are open; leave forgets it.
func (b *Bridge) enter(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
}

func (b *Bridge) leave(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

// describe is for the owner.
func (c *conn) describe() bridges.Connection {
	peer := c.nc.RemoteAddr().String()
	told := bridges.Connection{ID: c.id, Protocol: c.protocol(), Peer: peer, Since: c.since, Namespace: c.identity.Namespace(), Product: c.product, Sessions: c.eng.Sessions(), Policies: c.identity.Policies()}
	for l := range c.eng.Links() {
		switch d := l.Data.(type) {
		case *senderLink:
			told.Links = append(told.Links, bridges.Link{Entity: d.destination.String()})
		case *receiverLink:
			told.Links = append(told.Links, d.describe())
		case *browseLink:
			told.Links = append(told.Links, bridges.Link{Entity: d.addr.String(), Receives: true})
		}
	}
	slices.SortFunc(told.Links, func(x, y bridges.Link) int {
		return cmp.Or(cmp.Compare(x.Entity, y.Entity), cmp.Compare(direction(x), direction(y)), cmp.Compare(x.Session, y.Session))
	})
	return told
}

// protocol is amqp, or what it is inside of.
func (c *conn) protocol() string {
	if inside, ok := c.nc.(interface{ Protocol() string }); ok {
		return inside.Protocol()
	}
	return "amqp"
}

// direction puts links that send before those that receive.
func direction(l bridges.Link) int {
	if l.Receives {
		return 1
	}
	return 0
}

func (r *receiverLink) describe() bridges.Link {
	told := bridges.Link{Entity: r.addr.String(), Receives: true, Deletes: r.mode == core.ReceiveAndDelete}
	if r.session != nil {
		told.Holds, told.Session = true, r.session.ID()
	}
	return told
}

// productOf reads from an open frame what the client calls itself: its product with the version, as SDKs send them, or
// its container.
func productOf(o *wire.Open) string {
	property := func(name string) string {
		v, _ := o.Properties.Get(name)
		s, _ := text(v)
		return s
	}
	name, version := property("product"), property("version")
	switch {
	case name == "":
		name = cmp.Or(property("user-agent"), o.ContainerID)
	case version != "":
		name += " " + version
	}
	return strings.ToValidUTF8(name[:min(len(name), maxProduct)], "")
}
