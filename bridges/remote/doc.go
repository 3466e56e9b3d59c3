// Package remote is a client of other brokers that speak AMQP 1.0: messages of
// queues and subscriptions are forwarded to them, and pulled from them. It sees to
// one connection to each, for as long as the gateway runs. A Client is a connection for
// a tool.
//
// Azure/go-amqp keeps the connection, its sessions, links and settlements. What
// messages hold it does not see: they are encoded and decoded as the AMQP bridge
// does it, so that every type of AMQP passes, and a peer's bytes never reach
// another's decoder unchecked (see amqp.Splice).
package remote
