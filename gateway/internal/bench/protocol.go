package bench

import "context"

// connection is a client's connection, whatever it speaks.
type connection interface {
	openSender(ctx context.Context) (senderLink, error)
	openReceiver(ctx context.Context, o *Options) (receiverLink, error)
	Close() error
}

// senderLink sends messages.
type senderLink interface {
	// send sends a message, whose payload may be used again when it returns. wait
	// returns once the broker has stored it.
	send(ctx context.Context, payload []byte) (wait func(context.Context) error, err error)
}

// receiverLink receives messages.
type receiverLink interface {
	issueCredit(n int) error
	receive(ctx context.Context) (delivery, error)
}

// delivery is a message that was received.
type delivery interface {
	payload() []byte
	// accept completes the message in the way that the options say.
	accept(ctx context.Context) error
	// release gives it back.
	release(ctx context.Context) error
}
