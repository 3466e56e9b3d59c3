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

func Peer(protocol, address, product string) string {
	return strings.TrimRight(protocol+" "+address+" "+product, " ")
}

// Network returns the part of an address that identifies one customer of a provider: all of an IPv4
// address, or the first 64 bits of an IPv6 address.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if network, err := a.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}

// Hosts returns the host names with which a request addressed the gateway, for core.Authority: the
// Host header, then the server name of TLS.
func Hosts(r *http.Request) []string {
	if r.TLS != nil && r.TLS.ServerName != "" {
		return []string{r.Host, r.TLS.ServerName}
	}
	return []string{r.Host}
}

// Product returns at most 200 bytes of what the client of a request calls itself.
func Product(r *http.Request) string { return r.UserAgent()[:min(len(r.UserAgent()), 200)] }

func Certified(ctx context.Context, state *tls.ConnectionState) context.Context {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ctx
	}
	return core.WithCertificate(ctx, state.PeerCertificates[0])
}

// CertifiedBy returns r's context with the client's certificate. It ignores the certificates of
// browsers, because browsers send them even for a page of another site.
func CertifiedBy(r *http.Request) context.Context {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return r.Context()
	}
	return Certified(r.Context(), r.TLS)
}

// Prove tells nc, if it has a method Proven, that its client has proven an identity. A connection
// that wraps another must pass the call on.
func Prove(nc net.Conn) {
	if c, ok := nc.(interface{ Proven() }); ok {
		c.Proven()
	}
}

// Answered tells nc that the gateway no longer holds data of its client in memory.
func Answered(nc net.Conn) {
	if c, ok := nc.(interface{ Answered() }); ok {
		c.Answered()
	}
}

type connKey struct{}

// Charge counts a connection for an identity until release is called, or returns why it cannot.
type Charge func(core.Identity) (release func(), err error)

type charged struct {
	net.Conn
	charge Charge
}

func WithConn(ctx context.Context, nc net.Conn, charge Charge) context.Context {
	return context.WithValue(ctx, connKey{}, charged{nc, charge})
}

// ProveIn calls Prove for the connection of the request with context ctx. If the connection has a
// method Charge, the first call also charges it to id.
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

type endingKey struct{}

// WithEnding returns a context for requests of a server, which closes the channel when it stops.
func WithEnding(ctx context.Context, ending <-chan struct{}) context.Context {
	return context.WithValue(ctx, endingKey{}, ending)
}

// Ending returns a channel that closes when the server of the request stops: requests should then
// stop waiting. It returns nil if the context has no such channel.
func Ending(ctx context.Context) <-chan struct{} {
	ending, _ := ctx.Value(endingKey{}).(<-chan struct{})
	return ending
}
