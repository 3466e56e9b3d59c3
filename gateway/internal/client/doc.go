// Package client is the command-line client: send, receive and peek over AMQP,
// queue, topic, subscription and rule over the management API, all with the
// official SDK; record and replay over AMQP without it, because it does not know
// all types. It works against any namespace that a connection string names.
package client
