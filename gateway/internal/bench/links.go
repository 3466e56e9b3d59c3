package bench

import "context"

type Dialer func(ctx context.Context, url string) (Connection, error)

type Connection interface {
	OpenSender(ctx context.Context, entity string) (SenderLink, error)
	OpenReceiver(ctx context.Context, entity string, o ReceiveOptions) (ReceiverLink, error)
	Close() error
}

type ReceiveOptions struct {
	Credit int // the first credit
	Settle Settle
}

type SenderLink interface {
	// Send does not keep payload. wait returns when the broker has stored the message.
	Send(ctx context.Context, payload []byte) (wait func(context.Context) error, err error)
}

type ReceiverLink interface {
	IssueCredit(n int) error
	Receive(ctx context.Context) (Delivery, error)
}

type Delivery interface {
	Payload() []byte
	// Accept completes the message, as ReceiveOptions.Settle says.
	Accept(ctx context.Context) error
	Release(ctx context.Context) error
}

type sessionConnection interface {
	// acceptSession locks the next free session with messages. release ends the lock.
	acceptSession(ctx context.Context, entity string, o ReceiveOptions) (link ReceiverLink, release func(context.Context) error, err error)
}

type sessionLink interface {
	sendToSession(ctx context.Context, session string, payload []byte) (wait func(context.Context) error, err error)
}
