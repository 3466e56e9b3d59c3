// Package websocket lets browsers in. It has two ways: a tunnel through which
// clients that bring AMQP along speak it, and a protocol of its own for those
// that do not; PROTOCOL.md specifies it.
//
// Both are handlers for HTTP requests that ask for an upgrade. A page may
// connect if it comes from the gateway's own host or from an origin that is
// listed; clients that are no pages name no origin, and all of them sign in
// besides. Messages are not compressed: that would cost each connection more
// memory than everything else that it needs.
package websocket
