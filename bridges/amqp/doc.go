// Package amqp is the AMQP 1.0 bridge: it speaks the dialect of Azure Service Bus, so that its official clients work
// unchanged.
//
// A connection is three goroutines: a reader that cuts the stream into whole frames, a writer, and the owner, which
// alone holds the state (package engine) and never waits for anybody. Broker calls run in goroutines of their own and
// post what comes out of them to the owner's mailbox. What arrives while a call is under way rides the next one.
package amqp
