// Package listen opens the gateway's listeners and detects which protocol each
// connection speaks: TLS, AMQP and HTTP differ in their first bytes, so one
// port serves everything and one connection string works for every SDK, which
// all put the same HOST:PORT into every address they make.
package listen
