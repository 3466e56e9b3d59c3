// Package messages has the commands send, receive, peek, tail, deadletter, deferred, scheduled,
// record, replay, explain and schema, and purge for queues and subscriptions.
package messages
