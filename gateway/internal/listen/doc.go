// Package listen opens the gateway's listeners and finds out what each
// connection speaks: TLS, AMQP or HTTP are told apart by the first bytes, so one
// port serves everything and one connection string works for every SDK, which
// all put the same HOST:PORT into every address they make.
package listen
