// Package client is the command-line client: send, receive and peek over AMQP,
// queue over the management API, all with the official SDK. It works against
// any namespace that a connection string names.
package client
