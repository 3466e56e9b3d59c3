// Package intercept is the one place between bridges and the broker where a call can be seen or
// changed. A Front is the core.Broker and core.Admin that a bridge calls. It finds the Space of the
// call's identity, and passes the call through interceptors: first those of the front, which belong to
// a protocol, then those of the space, which belong to a namespace.
//
//	bridge ─▶ Front: tracing, metrics │ Space: faults, taps, payload ─▶ core.Broker, core.Admin
//
// # Calls
//
// An Interceptor does its part before and after Call.Next, as middleware of an HTTP server does. So
// it may change requests and answers, delay, refuse, or carry out a call in parts, and keeps what
// it needs between the two in local variables. With two methods, Before and After, the call would
// need fields for these values, and for calls that an interceptor answers or carries out in parts.
// Most interceptors only pass on most operations. This takes a few nanoseconds, too little for
// separate lists of interceptors by operation to be worthwhile.
//
// # Messages
//
// When a receiver is opened, an interceptor may replace its Deliver and Closed with functions that
// call the former ones. The broker calls the functions of the last interceptor, so messages pass
// the interceptors from back to front. An interceptor that holds messages back adds a Stage to the
// receiver. The end of a drain passes a stage after the messages that came before it. Close closes
// the broker's receiver and then the stages from back to front, so no message passes afterwards.
//
// # Spaces
//
// A Front asks for the space with each call that names an identity, so a deleted namespace refuses at
// once, and bridges know nothing of namespaces. Senders, receivers and sessions stay in the space that
// opened them; a transaction is in the namespace of its first operation.
package intercept
