// Package amqp is the AMQP 1.0 bridge: it speaks the dialect of Azure Service Bus, so that its official clients work
// unchanged.
//
// A connection is one goroutine that reads whole frames. What it reads is a job of the connection's owner (package link),
// as are the ends of broker calls, deliveries and timers: jobs run one at a time, in the goroutine that brings them, and
// alone touch the state (package engine). They never wait: broker calls run in goroutines of their own, and what the
// socket does not take at once is left to a writer. What arrives while a call is in flight rides the next one.
//
// A link on which a client receives from a session holds that session: it is accepted before the attach is answered,
// found again by the requests that concern it, and given back when the link ends.
//
// Transactions belong to their coordinator link. Operations of one are handed to the broker one after the other, beside
// those that belong to none, which are piled up; the answer to a discharge waits for those before it.
package amqp
