// Package amqp is the AMQP 1.0 bridge. It implements the dialect of Azure Service Bus, so that the
// official clients work unchanged.
//
// Each connection has one goroutine that reads whole frames. Each frame becomes a job of the
// connection's owner (package link), as does each delivery, timer and result of a broker call. The
// goroutine that submits a job runs it, and jobs run one at a time. Only jobs change the state of
// the connection (package engine). A job never waits: broker calls run in their own goroutines, and
// a writer sends what the socket does not accept at once. Messages and settlements that arrive
// during a broker call go into the next call.
//
// A link on which a client receives from a session holds that session. The bridge accepts the
// session before it answers the attach, and releases the session when the link ends. Requests that
// concern the session find it through the link.
//
// A transaction belongs to its coordinator link. Its operations go to the broker one by one, while
// operations outside of transactions are batched. The answer to a discharge waits for the
// transaction's earlier operations.
package amqp
