// Package messages has the commands about messages: send, receive, peek, tail, deadletter,
// deferred, scheduled, record, replay and explain, and purge for queues and subscriptions. They use
// the official SDK or, because it does not know all types of values, plain AMQP.
package messages
