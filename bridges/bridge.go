// Package bridges says what a bridge is: the server side of one protocol, in front of the broker.
package bridges

import (
	"context"
	"net"
)

// Bridge serves one protocol.
type Bridge interface {
	// Serve accepts on ln until ctx ends, then drains and returns nil.
	Serve(ctx context.Context, ln net.Listener) error
}
