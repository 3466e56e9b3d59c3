// Package wire translates between AMQP 1.0 bytes and Go values: protocol headers, frames,
// performatives, and the sections of a message. It does no I/O and starts no goroutine. Every limit
// is an argument.
//
// Errors about a peer's bytes are of type *Error, with the condition for the answer. Bytes in
// decoded values alias the input unless a comment says otherwise.
package wire
