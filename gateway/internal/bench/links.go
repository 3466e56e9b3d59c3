package bench

import "context"

// Dialer opens a connection to the broker at a URL.
type Dialer func(ctx context.Context, url string) (Connection, error)

// Connection is a client's connection, in any protocol.
type Connection interface {
	OpenSender(ctx context.Context, entity string) (SenderLink, error)
	OpenReceiver(ctx context.Context, entity string, o ReceiveOptions) (ReceiverLink, error)
	Close() error
}

// ReceiveOptions determine how a link receives.
type ReceiveOptions struct {
	Credit int // how much the receiver issues at first
	Settle Settle
}

// SenderLink sends messages to one entity.
type SenderLink interface {
	// Send sends a message, whose payload may be used again when it returns. wait
	// returns once the broker has stored it.
	Send(ctx context.Context, payload []byte) (wait func(context.Context) error, err error)
}

// ReceiverLink receives messages from one entity.
type ReceiverLink interface {
	IssueCredit(n int) error
	Receive(ctx context.Context) (Delivery, error)
}

// Delivery is a received message.
type Delivery interface {
	Payload() []byte
	// Accept completes the message, in the way that the options choose.
	Accept(ctx context.Context) error
	// Release returns the message to the queue.
	Release(ctx context.Context) error
}

// sessionConnection is a connection whose protocol has message sessions.
type sessionConnection interface {
	// acceptSession locks the next session that has messages. Its release ends
	// the lock.
	acceptSession(ctx context.Context, entity string, o ReceiveOptions) (link ReceiverLink, release func(context.Context) error, err error)
}

// sessionLink is a link that can send to sessions.
type sessionLink interface {
	sendToSession(ctx context.Context, session string, payload []byte) (wait func(context.Context) error, err error)
}
