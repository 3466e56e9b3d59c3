// Package engine is the server side of an AMQP 1.0 connection as a state machine: SASL, the connection, its sessions and
// their links. Bytes of the peer and ticks go in; bytes for the peer and calls of a Handler come out. It does no I/O,
// starts no goroutine and reads no clock, and is for one goroutine at a time.
//
// Channels and handles are numbered alike on both sides: a server only ever answers begin and attach, so the number the
// peer chose is free on our side too.
package engine
