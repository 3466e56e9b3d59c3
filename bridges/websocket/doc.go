// Package websocket serves browsers in two ways: a tunnel for clients with their own AMQP
// implementation, and a protocol, specified in PROTOCOL.md, for the others.
//
// Both are handlers for HTTP requests that ask for an upgrade. A page may connect if it comes from
// the gateway's own host or from a listed origin. Clients other than pages name no origin. All
// clients must sign in as well. Messages are not compressed: that would cost each connection more
// memory than everything else it needs.
package websocket
