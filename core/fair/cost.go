package fair

import (
	"crypto/tls"
	"net"
)

// Memory of things in bytes, without their payloads. A test compares these with the heap of a
// gateway.
const (
	Message         = 2 << 10  // decoded, not stored yet, and in the form of its store
	Copy            = 1 << 10  // of a message for a subscription, not stored yet; the message's metadata is not included
	Delivery        = 192      // not settled by its client
	Link            = 1536     // AMQP, with what the broker opens for it
	Session         = 384      // AMQP
	SessionReceiver = 20 << 10 // added to a link or feed that waits for a session of messages, or has one
	Call            = 16 << 10 // the stack of a goroutine that calls the broker

	Requests = 22 << 10 // added to an HTTP connection by a request; an idle connection keeps half of it

	connection = 12 << 10 // of any protocol, with buffers
	ofTLS      = 18 << 10
)

// Connection returns the memory of c in bytes. It looks through NetConn methods for a connection
// with ConnectionState (TLS).
func Connection(c net.Conn) int64 {
	switch c := c.(type) {
	case interface{ ConnectionState() tls.ConnectionState }:
		return connection + ofTLS
	case interface{ NetConn() net.Conn }:
		return Connection(c.NetConn())
	}
	return connection
}
