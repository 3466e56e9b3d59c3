// Package messages has the commands about messages: send, receive, peek, tail, deadletter,
// deferred, scheduled, record, replay and explain, and purge for queues and subscriptions.
package messages
