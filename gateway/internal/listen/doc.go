// Package listen opens the gateway's listeners and detects the protocol of each connection. As TLS,
// AMQP and HTTP differ in their first bytes, one port serves all of them, and one connection string
// works for every SDK: all SDKs use its HOST:PORT in every address.
package listen
