// Package messages has the commands about messages: send, receive, peek, tail, deadletter,
// deferred, scheduled, record, replay and explain, and purge for queues and subscriptions. They use
// the official SDK where it suffices, else plain AMQP, because the SDK does not know all types.
package messages
