package amqp

import (
	"cmp"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
)

// maxProduct bounds what is kept of what a client calls itself, in bytes.
const maxProduct = 256

var _ bridges.Census = (*Bridge)(nil)

// Owned implements link.Member.
func (c *conn) Owned() (id string, owner *link.Owner) { return c.id, c.owner }

// Evacuate implements link.Member.
func (c *conn) Evacuate(reason string) { c.drain(reason) }

// Describe implements link.Member.
func (c *conn) Describe() bridges.Connection {
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
