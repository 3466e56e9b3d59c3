// Package bench drives load through any AMQP 1.0 broker and accounts for every message: each
// contains the run, the sender and a number. A report shows how fast the broker was, and whether
// messages were lost or duplicated.
//
// A run opens connections, spreads senders and receivers over them (one AMQP session each), sends,
// receives and settles, and ends when every acknowledged message has come back, or when none has
// arrived for Options.Patience.
package bench
