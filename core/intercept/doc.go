// Package intercept is the one place between bridges and the broker where a call can be seen or
// changed. A Front is the core.Broker and core.Admin that a bridge calls. It finds the Space of the
// call's identity, and passes the call through interceptors: first those of the front, which belong to
// a protocol, then those of the space, which belong to a namespace.
//
//	bridge ─▶ Front: tracing, metrics │ Space: faults, taps, payload ─▶ core.Broker, core.Admin
//
// # Calls
//
// An Interceptor does its part before and after Call.Next, as middleware of an HTTP server does. So it
// may change what is asked and what is answered, delay, refuse, or do a call in parts, and what it
// knows between the two is in local variables. A pair of methods Before and After would need a place in
// the call for that, and words for "answered" and "in parts". Most interceptors pass most operations
// on: that takes a few nanoseconds, less than a list of interceptors per operation would save.
//
// # Messages
//
// An interceptor that opens a receiver sees the bridge's Options, and may put its own Deliver and
// Closed before the bridge's. The broker calls what the last interceptor has put there, so messages pass
// from back to front. One that holds messages back is also a Stage of the receiver: the end of a drain
// passes after the messages that came before it, and once the receiver is closed no message passes any
// more.
//
// # Spaces
//
// A Front asks for the space with each call that names an identity, so a deleted namespace refuses at
// once, and bridges know nothing of namespaces. Senders, receivers and sessions stay in the space that
// opened them; a transaction is in that of its first operation.
package intercept
