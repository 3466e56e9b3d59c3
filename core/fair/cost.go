package fair

import (
	"crypto/tls"
	"net"
)

// How much memory things take besides their bytes. A test compares them with the heap of a gateway.
const (
	Message         = 2 << 10  // a message that has been read and not stored yet: decoded, and in the form of its store
	Copy            = 1 << 10  // a copy for a subscription that is not stored yet, besides the message's metadata
	Delivery        = 192      // a delivery that its client has not settled
	Link            = 1536     // an AMQP link with what the broker opens for it
	Session         = 384      // an AMQP session
	SessionReceiver = 20 << 10 // what a link or feed takes in addition while it waits for a session of messages, or has one
	Call            = 16 << 10 // a call of the broker in progress: the stack of its goroutine

	Requests = 22 << 10 // what HTTP adds to a connection that serves a request; an idle connection keeps half of it

	connection = 12 << 10 // a connection of any protocol with its buffers
	ofTLS      = 18 << 10 // what TLS adds
)

// Connection returns the memory that c takes, in bytes. If c has a method NetConn, but none named
// ConnectionState, it is the memory of the connection that NetConn returns.
func Connection(c net.Conn) int64 {
	switch c := c.(type) {
	case interface{ ConnectionState() tls.ConnectionState }:
		return connection + ofTLS
	case interface{ NetConn() net.Conn }:
		return Connection(c.NetConn())
	}
	return connection
}
