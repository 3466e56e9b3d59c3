// Package remote is a client of other brokers that speak AMQP 1.0: messages of queues and
// subscriptions are forwarded to them, and pulled from them. It keeps one connection to each open
// while the gateway runs. A Client is a connection for a tool.
//
// Azure/go-amqp handles the connection, its sessions, links and settlements. It does not see the
// contents of messages: the AMQP bridge's code encodes and decodes them, so that every type of AMQP
// passes, and a peer's bytes never reach a foreign decoder unchecked (see amqp.Splice).
package remote
