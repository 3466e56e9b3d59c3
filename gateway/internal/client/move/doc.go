// Package move is the commands that move entities and messages in and out: import, export and diff over the management
// API without the official SDK, because it does not know all properties, and migrate over AMQP without it, because it
// does not know all types.
package move
