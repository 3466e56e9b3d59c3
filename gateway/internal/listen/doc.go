// Package listen opens the gateway's listeners and detects the protocol of each connection. TLS,
// AMQP and HTTP differ in their first bytes, so one port serves all of them. Therefore one
// connection string works for every SDK: all SDKs use its HOST:PORT in every address.
package listen
