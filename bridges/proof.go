package bridges

import (
	"context"
	"net"
)

// Prove tells the connection that its client has proven an identity. Connections that need it have
// a method Proven; wrappers of connections pass it on.
func Prove(nc net.Conn) {
	if c, ok := nc.(interface{ Proven() }); ok {
		c.Proven()
	}
}

// Answered has the connection know that nothing is kept of what its client has
// sent so far.
func Answered(nc net.Conn) {
	if c, ok := nc.(interface{ Answered() }); ok {
		c.Answered()
	}
}

// connKey finds, in the context of a request, the connection that it came by.
type connKey struct{}

// WithConn returns a context of what comes by a connection, for ProveIn.
func WithConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, nc)
}

// ProveIn is Prove for the connection of a request, whose context this is.
func ProveIn(ctx context.Context) {
	if nc, ok := ctx.Value(connKey{}).(net.Conn); ok {
		Prove(nc)
	}
}
