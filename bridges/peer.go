package bridges

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
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

// WithConn returns a context for requests that come by a connection, for ProveIn.
func WithConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, nc)
}

// ProveIn is Prove for the connection of the request that has this context.
func ProveIn(ctx context.Context) {
	if nc, ok := ctx.Value(connKey{}).(net.Conn); ok {
		Prove(nc)
	}
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
