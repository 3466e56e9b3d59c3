package core

import "context"

// disconnectKey is the context key of WithDisconnect.
type disconnectKey struct{}

// WithDisconnect returns a context for calls of a peer whose connection disconnect ends at once. It
// may be called at any time, from any goroutine.
func WithDisconnect(ctx context.Context, disconnect func()) context.Context {
	return context.WithValue(ctx, disconnectKey{}, disconnect)
}

// Disconnect ends the connection that a call came by, without a word to the peer, as a network does
// that fails. It does nothing for a call that came by none.
func Disconnect(ctx context.Context) {
	if disconnect, ok := ctx.Value(disconnectKey{}).(func()); ok {
		disconnect()
	}
}
