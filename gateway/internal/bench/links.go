package bench

import "context"

// Dialer opens a connection to the broker at a URL.
type Dialer func(ctx context.Context, url string) (Connection, error)

// Connection is a connection to the broker, in any protocol.
type Connection interface {
	OpenSender(ctx context.Context, entity string) (SenderLink, error)
	OpenReceiver(ctx context.Context, entity string, o ReceiveOptions) (ReceiverLink, error)
	Close() error
}

// ReceiveOptions say how a link receives.
type ReceiveOptions struct {
	Credit int // the receiver's first credit
	Settle Settle
}

// SenderLink sends messages to one entity.
type SenderLink interface {
	// Send sends a message. payload may be used again when Send returns. wait returns when the
	// broker has stored the message.
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
	// Accept completes the message, as ReceiveOptions.Settle says.
	Accept(ctx context.Context) error
	// Release returns the message to the queue.
	Release(ctx context.Context) error
}

// sessionConnection is a connection of a protocol with message sessions.
type sessionConnection interface {
	// acceptSession locks the next free session with messages. release ends the lock.
	acceptSession(ctx context.Context, entity string, o ReceiveOptions) (link ReceiverLink, release func(context.Context) error, err error)
}

// sessionLink is a link that can send to message sessions.
type sessionLink interface {
	sendToSession(ctx context.Context, session string, payload []byte) (wait func(context.Context) error, err error)
}
