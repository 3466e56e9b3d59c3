// Package client is the command-line client: send, receive and peek over AMQP,
// queue, topic, subscription and rule over the management API, all with the
// official SDK; tail, record, replay, migrate and the
// commands about dead letters, scheduled and deferred messages over AMQP, import, export and diff over
// the management API without it, because it does not know all types. It works against any namespace that a connection string names.
package client
