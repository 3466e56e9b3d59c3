package bridges

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// Peer returns the description of a client for core.WithPeer: its protocol, its address and, if
// known, the name of its software.
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

// Hosts returns the names by which a request called the gateway, for core.Authority: first the Host
// header, then the server name of the TLS handshake.
func Hosts(r *http.Request) []string {
	if r.TLS != nil && r.TLS.ServerName != "" {
		return []string{r.Host, r.TLS.ServerName}
	}
	return []string{r.Host}
}

// Certified returns a context with the client's certificate, if TLS has verified one.
func Certified(ctx context.Context, state *tls.ConnectionState) context.Context {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ctx
	}
	return core.WithCertificate(ctx, state.PeerCertificates[0])
}

// CertifiedBy does the same as Certified, for a request. It ignores requests of browsers, which send
// the certificate even if another site's page makes the request.
func CertifiedBy(r *http.Request) context.Context {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return r.Context()
	}
	return Certified(r.Context(), r.TLS)
}

// Prove tells the connection that its client has proven an identity. A connection that needs this
// information has a method Proven, and wrappers of connections pass the call on.
func Prove(nc net.Conn) {
	if c, ok := nc.(interface{ Proven() }); ok {
		c.Proven()
	}
}

// Answered tells the connection that the gateway keeps nothing of what its client has sent so far.
func Answered(nc net.Conn) {
	if c, ok := nc.(interface{ Answered() }); ok {
		c.Answered()
	}
}

// connKey finds, in the context of a request, the connection that it came by.
type connKey struct{}

// Charge counts the cost of a connection towards its client's share, or returns why that is not
// possible.
type Charge func(core.Identity) (release func(), err error)

type charged struct {
	net.Conn
	charge Charge
}

// WithConn returns a context for requests that arrive on a connection, for ProveIn.
func WithConn(ctx context.Context, nc net.Conn, charge Charge) context.Context {
	return context.WithValue(ctx, connKey{}, charged{nc, charge})
}

// ProveIn does the same as Prove, for the connection of the request with this context. It first
// charges the connection, once, to the first client that proves its identity, until the connection
// is closed. A connection that can be charged has a method Charge.
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

// WithEnding returns a context for requests of a server that ends when the channel closes.
func WithEnding(ctx context.Context, ending <-chan struct{}) context.Context {
	return context.WithValue(ctx, endingKey{}, ending)
}

// Ending returns a channel that closes when the request's server is to end. A request that waits
// should then return. The channel is nil, and never closes, if the server did not use WithEnding.
func Ending(ctx context.Context) <-chan struct{} {
	ending, _ := ctx.Value(endingKey{}).(<-chan struct{})
	return ending
}
