// Package move contains the commands that move entities and messages: import, export and diff over
// the management API, and migrate over AMQP.
package move
