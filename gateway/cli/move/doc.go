// Package move has the commands that move entities and messages in and out: import, export and diff
// over the management API, and migrate over AMQP.
package move
