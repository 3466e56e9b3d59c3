package bridges

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// Peer is what core.WithPeer takes: the protocol and address of a client, and the name it gives
// itself, if any.
func Peer(protocol, address, product string) string {
	return strings.TrimRight(protocol+" "+address+" "+product, " ")
}

// Network returns the part of an address that is assigned to one customer: all of an IPv4 address,
// and the first 64 bits of an IPv6 address.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if network, err := a.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}

// Hosts are the names by which a request called the gateway, as core.Authority
// takes them: its Host, then what TLS was asked for.
func Hosts(r *http.Request) []string {
	if r.TLS != nil && r.TLS.ServerName != "" {
		return []string{r.Host, r.TLS.ServerName}
	}
	return []string{r.Host}
}

// Prove tells the connection that its client has proven an identity. Connections that need it have
// a method Proven; wrappers of connections pass it on.
func Prove(nc net.Conn) {
	if c, ok := nc.(interface{ Proven() }); ok {
		c.Proven()
	}
}

// Answered tells the connection that nothing its client has sent so far is kept.
func Answered(nc net.Conn) {
	if c, ok := nc.(interface{ Answered() }); ok {
		c.Answered()
	}
}

// connKey finds, in the context of a request, the connection that it came by.
type connKey struct{}

// Charge is a function that takes what a connection costs from its client's share, or says why it cannot.
type Charge func(core.Identity) (release func(), err error)

type charged struct {
	net.Conn
	charge Charge
}

// WithConn returns a context for requests that come by a connection, for ProveIn.
func WithConn(ctx context.Context, nc net.Conn, charge Charge) context.Context {
	return context.WithValue(ctx, connKey{}, charged{nc, charge})
}

// ProveIn is Prove for the connection of the request that has this context. It first charges the connection,
// once: to the first client that proves its identity, until the connection is closed. A connection that can be
// charged has a method Charge.
func ProveIn(ctx context.Context, id core.Identity) error {
	c, ok := ctx.Value(connKey{}).(charged)
	if !ok {
		return nil
	}
	if to, ok := c.Conn.(interface {
		Charge(take func() (release func(), err error)) error
	}); ok {
		if err := to.Charge(func() (func(), error) { return c.charge(id) }); err != nil {
			return err
		}
	}
	Prove(c.Conn)
	return nil
}

// endingKey finds, in a request's context, the channel that closes when its server is to end.
type endingKey struct{}

// WithEnding returns a context for requests of a server that is to end when the channel closes.
func WithEnding(ctx context.Context, ending <-chan struct{}) context.Context {
	return context.WithValue(ctx, endingKey{}, ending)
}

// Ending closes when the server that took the request is to end: a request that would wait ends
// then. It is nil, and never closes, if no server used WithEnding.
func Ending(ctx context.Context) <-chan struct{} {
	ending, _ := ctx.Value(endingKey{}).(<-chan struct{})
	return ending
}
