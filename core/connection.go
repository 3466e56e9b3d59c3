package core

import "context"

// disconnectKey is the context key of WithDisconnect.
type disconnectKey struct{}

// WithDisconnect returns a context for calls of a peer whose connection disconnect ends: at once if most
// is 0, else after the next bytes that are sent to the peer, at most that many. It may be called at any
// time, from any goroutine.
func WithDisconnect(ctx context.Context, disconnect func(most int)) context.Context {
	return context.WithValue(ctx, disconnectKey{}, disconnect)
}

// Disconnect ends the connection that a call came by, without a word to the peer, as a network does
// that fails. It does nothing for a call that came by none.
func Disconnect(ctx context.Context) { DisconnectAfter(ctx, 0) }

// DisconnectAfter is Disconnect after the next bytes that are sent to the peer, at most that many. A
// bridge that cannot count them ends the connection at once.
func DisconnectAfter(ctx context.Context, most int) {
	if disconnect, ok := ctx.Value(disconnectKey{}).(func(int)); ok {
		disconnect(most)
	}
}
