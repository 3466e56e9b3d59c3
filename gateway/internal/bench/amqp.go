package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/go-amqp"
)

// amqpConn is a connection that speaks AMQP 1.0.
type amqpConn struct {
	*amqp.Conn
	entity string
}

func (t *target) dialAMQP(ctx context.Context) (connection, error) {
	o := &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous(), HostName: t.host}
	if t.user != "" {
		o.SASLType = amqp.SASLTypePlain(t.user, t.password)
	}
	if strings.HasPrefix(t.address, "amqps:") {
		config, err := t.tlsConfig()
		if err != nil {
			return nil, err
		}
		o.TLSConfig = config
	}
	conn, err := amqp.Dial(ctx, t.address, o)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.address, plain(err))
	}
	if t.claims {
		if err := t.putToken(ctx, conn); err != nil {
			_ = conn.Close() // the refusal matters more
			return nil, fmt.Errorf("put a token for %s at %s: %w", t.entity, t.address, plain(err))
		}
	}
	return &amqpConn{conn, t.entity}, nil
}

func (c *amqpConn) openSender(ctx context.Context) (senderLink, error) {
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", plain(err))
	}
	link, err := session.NewSender(ctx, c.entity, nil)
	if err != nil {
		return nil, fmt.Errorf("open a sender to %s: %w", c.entity, plain(err))
	}
	m := amqp.NewMessage(nil)
	m.Header = &amqp.MessageHeader{Durable: true}
	return &amqpSender{link, m}, nil
}

// amqpSender sends the same message again and again: it is encoded before
// SendWithReceipt returns.
type amqpSender struct {
	link    *amqp.Sender
	message *amqp.Message
}

func (s *amqpSender) send(ctx context.Context, payload []byte) (wait func(context.Context) error, err error) {
	s.message.Data = [][]byte{payload}
	receipt, err := s.link.SendWithReceipt(ctx, s.message, nil)
	if err != nil {
		return nil, plain(err)
	}
	return func(ctx context.Context) error { return accepted(receipt.Wait(ctx)) }, nil
}

// accepted says what is wrong with an outcome that is not accepted.
func accepted(state amqp.DeliveryState, err error) error {
	if err != nil {
		return plain(err)
	}
	switch state := state.(type) {
	case *amqp.StateAccepted:
		return nil
	case *amqp.StateRejected:
		if state.Error != nil {
			return fmt.Errorf("rejected: %w", plain(state.Error))
		}
	}
	return fmt.Errorf("the outcome was %T, not accepted", state)
}

func (c *amqpConn) openReceiver(ctx context.Context, o *Options) (receiverLink, error) {
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", plain(err))
	}
	link, err := session.NewReceiver(ctx, c.entity, o.receiverOptions())
	if err != nil {
		err = fmt.Errorf("open a receiver of %s: %w", c.entity, plain(err))
		if strings.Contains(err.Error(), "settle") {
			err = fmt.Errorf("%w (every broker offers --settle %s)", err, SettleFirst)
		}
		return nil, err
	}
	return amqpReceiver{link}, nil
}

func (o *Options) receiverOptions() *amqp.ReceiverOptions {
	ro := &amqp.ReceiverOptions{Credit: -1} // this package issues it: see receiver.replenish
	switch o.Settle {
	case SettleBatch, SettleEach:
		ro.SettlementMode = amqp.ReceiverSettleModeSecond.Ptr()
	case SettleFirst:
		ro.SettlementMode = amqp.ReceiverSettleModeFirst.Ptr()
	case SettleNone:
		ro.RequestedSenderSettleMode = amqp.SenderSettleModeSettled.Ptr()
	}
	return ro
}

type amqpReceiver struct{ link *amqp.Receiver }

func (r amqpReceiver) issueCredit(n int) error { return plain(r.link.IssueCredit(uint32(n))) }

func (r amqpReceiver) receive(ctx context.Context) (delivery, error) {
	m, err := r.link.Receive(ctx, nil)
	if err != nil {
		return nil, plain(err)
	}
	return amqpArrival{r.link, m}, nil
}

type amqpArrival struct {
	link    *amqp.Receiver
	message *amqp.Message
}

func (a amqpArrival) payload() []byte { return a.message.GetData() }

func (a amqpArrival) accept(ctx context.Context) error {
	return plain(a.link.AcceptMessage(ctx, a.message))
}

func (a amqpArrival) release(ctx context.Context) error {
	return plain(a.link.ReleaseMessage(ctx, a.message))
}
