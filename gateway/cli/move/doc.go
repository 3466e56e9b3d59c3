// Package move contains commands that move entities and messages. import, export and diff use the
// management API. migrate also uses AMQP.
package move
