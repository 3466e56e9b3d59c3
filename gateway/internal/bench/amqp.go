package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/remote"
)

type amqpConn struct{ *amqp.Conn }

func (t *target) dialAMQP(ctx context.Context) (Connection, error) {
	o := &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous(), HostName: t.host}
	if t.user != "" {
		o.SASLType = amqp.SASLTypePlain(t.user, t.password)
	}
	if strings.HasPrefix(t.address, "amqps:") {
		o.TLSConfig = t.tlsConfig()
	}
	conn, err := amqp.Dial(ctx, t.address, o)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", t.address, plain(err))
	}
	if t.claims {
		if err := t.putToken(ctx, conn); err != nil {
			_ = conn.Close() // the refusal is more useful
			return nil, fmt.Errorf("cannot send a token for %s: %w", t.audience(), plain(err))
		}
	}
	return amqpConn{conn}, nil
}

func (c amqpConn) OpenSender(ctx context.Context, entity string) (SenderLink, error) {
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot open a session: %w", plain(err))
	}
	link, err := session.NewSender(ctx, entity, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot open a sender to %s: %w", entity, plain(err))
	}
	m := amqp.NewMessage(nil)
	m.Header = &amqp.MessageHeader{Durable: true}
	return &amqpSender{link, m}, nil
}

// amqpSender reuses one message, because SendWithReceipt encodes the message before it returns.
type amqpSender struct {
	link    *amqp.Sender
	message *amqp.Message
}

func (s *amqpSender) Send(ctx context.Context, payload []byte) (wait func(context.Context) error, err error) {
	s.message.Data = [][]byte{payload}
	receipt, err := s.link.SendWithReceipt(remote.CreditContext{Context: ctx}, s.message, nil)
	if err != nil {
		return nil, plain(err)
	}
	return func(ctx context.Context) error { return accepted(receipt.Wait(ctx)) }, nil
}

func (s *amqpSender) sendToSession(ctx context.Context, session string, payload []byte) (wait func(context.Context) error, err error) {
	s.message.Properties = &amqp.MessageProperties{GroupID: &session}
	return s.Send(ctx, payload)
}

func accepted(state amqp.DeliveryState, err error) error {
	if err != nil {
		return plain(err)
	}
	switch state := state.(type) {
	case *amqp.StateAccepted:
		return nil
	case *amqp.StateRejected:
		if state.Error != nil {
			return fmt.Errorf("the broker rejected the message: %w", plain(state.Error))
		}
	}
	return fmt.Errorf("the broker did not accept the message: the outcome was %s", strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", state), "*amqp.State")))
}

func (c amqpConn) OpenReceiver(ctx context.Context, entity string, o ReceiveOptions) (ReceiverLink, error) {
	_, link, err := c.attach(ctx, entity, o, nil)
	if err != nil {
		return nil, err
	}
	return amqpReceiver{link}, nil
}

// acceptSession uses one AMQP session for each receiver, like the SDKs.
func (c amqpConn) acceptSession(ctx context.Context, entity string, o ReceiveOptions) (link ReceiverLink, release func(context.Context) error, err error) {
	// A null filter requests the next free session. The number is the descriptor of session filters.
	next := amqp.NewLinkFilter("com.microsoft:session-filter", 0x00000137000000C, nil)
	session, receiver, err := c.attach(ctx, entity, o, []amqp.LinkFilter{next})
	if err != nil {
		return nil, nil, err
	}
	return amqpReceiver{receiver}, func(ctx context.Context) error {
		return plain(errors.Join(receiver.Close(ctx), session.Close(ctx)))
	}, nil
}

func (c amqpConn) attach(ctx context.Context, entity string, o ReceiveOptions, filters []amqp.LinkFilter) (*amqp.Session, *amqp.Receiver, error) {
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open a session: %w", plain(err))
	}
	// The caller issues the credit: see receiver.replenish.
	ro := &amqp.ReceiverOptions{Credit: -1, Filters: filters}
	switch o.Settle {
	case SettleBatch, SettleEach:
		ro.SettlementMode = amqp.ReceiverSettleModeSecond.Ptr()
	case SettleFirst:
		ro.SettlementMode = amqp.ReceiverSettleModeFirst.Ptr()
	case SettleNone:
		ro.RequestedSenderSettleMode = amqp.SenderSettleModeSettled.Ptr()
	}
	link, err := session.NewReceiver(ctx, entity, ro)
	if err != nil {
		err = fmt.Errorf("cannot open a receiver of %s: %w", entity, plain(err))
		if strings.Contains(err.Error(), "settle") {
			err = fmt.Errorf("%w: use --settle %s, which every broker supports", err, SettleFirst)
		}
		return nil, nil, err
	}
	return session, link, nil
}

type amqpReceiver struct{ link *amqp.Receiver }

func (r amqpReceiver) IssueCredit(n int) error { return plain(r.link.IssueCredit(uint32(n))) }

func (r amqpReceiver) Receive(ctx context.Context) (Delivery, error) {
	m, err := r.link.Receive(ctx, nil)
	if err != nil {
		return nil, plain(err)
	}
	return amqpDelivery{r.link, m}, nil
}

type amqpDelivery struct {
	link    *amqp.Receiver
	message *amqp.Message
}

func (d amqpDelivery) Payload() []byte { return d.message.GetData() }

func (d amqpDelivery) Accept(ctx context.Context) error {
	return plain(d.link.AcceptMessage(ctx, d.message))
}

func (d amqpDelivery) Release(ctx context.Context) error {
	return plain(d.link.ReleaseMessage(ctx, d.message))
}
