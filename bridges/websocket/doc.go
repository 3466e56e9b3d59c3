// Package websocket serves browsers in two ways. A tunnel serves clients with an AMQP
// implementation. A native protocol, specified in PROTOCOL.md, serves the others.
//
// Both handle HTTP requests for an upgrade. A page may connect if it comes from the gateway's own
// host or from a configured origin. Clients that are not pages send no origin. All clients must
// sign in as well. Messages are not compressed, because compression would cost each connection more
// memory than everything else that it needs.
package websocket
