package fair

import (
	"crypto/tls"
	"net"
)

// Estimates of memory in bytes, without payloads. A test compares them with a gateway's heap.
const (
	Message         = 2 << 10 // the decoded message, and the form in which the store keeps it
	Copy            = 1 << 10 // a subscription's copy, without the message's metadata
	Delivery        = 192
	Link            = 1536 // an AMQP link, with the broker's sender or receiver for it
	Session         = 384
	SessionReceiver = 20 << 10 // what receiving from a session adds to a link or feed, also while it waits for a session
	Call            = 16 << 10 // the stack of a goroutine that calls the broker

	Requests = 22 << 10 // added to an HTTP connection by a request; an idle connection keeps half of it

	connection = 12 << 10 // a connection of any protocol, with its buffers
	ofTLS      = 18 << 10
)

// Connection estimates the memory of c. It looks for TLS in c and in what c.NetConn returns.
func Connection(c net.Conn) int64 {
	switch c := c.(type) {
	case interface{ ConnectionState() tls.ConnectionState }:
		return connection + ofTLS
	case interface{ NetConn() net.Conn }:
		return Connection(c.NetConn())
	}
	return connection
}
