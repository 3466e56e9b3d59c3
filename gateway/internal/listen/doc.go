// Package listen opens the gateway's listeners and detects the protocol of each connection. TLS,
// AMQP and HTTP differ in their first bytes, so one port serves all three. SDKs use the HOST:PORT
// of a connection string for all protocols, so one connection string works for every SDK.
package listen
