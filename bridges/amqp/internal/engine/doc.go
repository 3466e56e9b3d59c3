// Package engine is the server side of an AMQP 1.0 connection as a state machine: SASL, the
// connection, its sessions and their links. Its input is the peer's bytes and ticks. Its output is
// bytes for the peer and calls of a Handler. It does no I/O, starts no goroutine and reads no
// clock. Only one goroutine may use a connection at a time.
//
// Both sides use the same channel and handle numbers. A server only answers begin and attach, so
// the number that the peer has chosen is free on the server's side too.
package engine
