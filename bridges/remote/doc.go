// Package remote is a client of other brokers that support AMQP 1.0. It forwards messages to their
// queues and topics, and pulls messages from their queues and subscriptions. It keeps one
// connection to each remote open while the gateway runs. A Client is a connection for a
// command-line tool.
//
// Azure/go-amqp implements the connection, its sessions, links and settlements. It does not see the
// contents of messages, which the AMQP bridge's code encodes and decodes. This keeps every AMQP
// type, and no other decoder reads a peer's bytes before they are checked (see amqp.Splice).
package remote
