// Package amqp is the AMQP 1.0 bridge: it speaks the dialect of Azure Service Bus, so that its official clients work
// unchanged.
//
// A connection is three goroutines: a reader that cuts the stream into whole frames, a writer, and the owner, which
// alone holds the state (package engine) and never waits for anybody. Broker calls run in goroutines of their own and
// post what comes out of them to the owner's mailbox. What arrives while a call is under way rides the next one.
//
// A link on which a client receives from a session holds that session: it is accepted before the attach is answered,
// found again by the requests that concern it, and given back when the link ends.
//
// Transactions belong to their coordinator link. Operations of one are handed to the broker one after the other, beside
// those that belong to none, which are piled up; the answer to a discharge waits for those before it.
package amqp
