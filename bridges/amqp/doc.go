// Package amqp is the AMQP 1.0 bridge: it speaks the dialect of Azure Service Bus, so that its official clients work
// unchanged.
//
// Each connection has one goroutine that reads whole frames. Whatever it reads becomes a job of the
// connection's owner (package link), as does each delivery, timer and end of a broker call. Jobs
// run one at a time, in the goroutine that submits them; only they touch the state (package
// engine). They never wait: broker calls run in their own goroutines, and a writer sends what the
// socket does not take at once. Messages and settlements that arrive during a call go into the next
// call.
//
// A link on which a client receives from a session holds that session. The session is accepted before the
// attach is answered, found through the link by requests that concern it, and released when the link ends.
//
// A transaction belongs to its coordinator link. Its operations go to the broker one by one, while operations
// outside transactions are batched; the answer to a discharge waits for the transaction's earlier operations.
package amqp
