// Package bridges defines the Bridge, which is the server side of one protocol in front of the
// broker.
package bridges

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Bridge serves one protocol.
type Bridge interface {
	// Serve accepts on ln until ctx ends, then drains and returns nil.
	Serve(ctx context.Context, ln net.Listener) error
}

// Front is the interface of the broker that bridges call.
type Front interface {
	core.Broker
	core.Admin
}

// Connection describes one client of a bridge.
type Connection struct {
	ID       string // as in the log
	Protocol string // "amqp", "amqp over websocket", "websocket" or "event stream"
	Peer     string // the client's address
	Since    time.Time
	// Namespace is the client's namespace. It is "" until the client has proven an identity.
	Namespace string
	Policies  []string // the shared access policies that vouch for it, or the subjects of its tokens
	Product   string   // what the client calls itself, or ""
	Sessions  int      // of AMQP, 0 with other protocols
	Links     []Link
}

// Link describes how a connection uses one entity.
type Link struct {
	Entity   string // its address
	Receives bool   // else it sends
	Deletes  bool   // it receives and deletes
	Holds    bool   // it holds a session
	Session  string // the id of that
}

// ForcedText is the reason that a client gets if an operator closes its connection.
const ForcedText = "An operator has closed the connection. Connect again."

// Census lists and closes the open connections of a bridge.
type Census interface {
	Connections(ctx context.Context) []Connection
	// CloseConnection closes the connection with that id, with ForcedText as the reason. Work in
	// flight on the connection may finish within the time that it would have if the bridge stopped.
	// CloseConnection returns false if no connection has the id.
	CloseConnection(id string) bool
}

// Default replaces an option that is not positive with its default.
func Default[T int | int64 | uint32 | time.Duration](option *T, otherwise T) {
	if *option <= 0 {
		*option = otherwise
	}
}

// warningPause is the least time between two warnings of a kind, so that clients cannot fill the
// log.
const warningPause = 10 * time.Second

// Warnings limits the warnings of one kind to one in ten seconds. The zero value is ready to use,
// from any number of goroutines.
type Warnings struct{ next atomic.Int64 } // Unix nanoseconds

// Due reports whether to write a warning now. After Due has returned true, it returns false for ten
// seconds.
func (w *Warnings) Due() bool {
	now, next := time.Now().UnixNano(), w.next.Load()
	return now >= next && w.next.CompareAndSwap(next, now+int64(warningPause))
}
