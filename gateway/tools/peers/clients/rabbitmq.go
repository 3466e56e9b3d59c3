package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

// rabbitConn is a connection to RabbitMQ by AMQP 0-9-1.
type rabbitConn struct{ *amqp091.Connection }

func dialRabbitMQ(_ context.Context, url string) (bench.Connection, error) {
	conn, err := amqp091.Dial("amqp" + strings.TrimPrefix(url, "amqp091"))
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	return rabbitConn{conn}, nil
}

// OpenSender implements bench.Connection.
func (c rabbitConn) OpenSender(_ context.Context, entity string) (bench.SenderLink, error) {
	channel, err := c.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		return nil, fmt.Errorf("open a sender to %s: %w", entity, err)
	}
	return rabbitSender{channel, entity}, nil
}

type rabbitSender struct {
	channel *amqp091.Channel
	queue   string
}

// Send implements bench.SenderLink.
func (s rabbitSender) Send(ctx context.Context, payload []byte) (wait func(context.Context) error, err error) {
	stored, err := s.channel.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, true, false,
		amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: payload})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		confirmed, err := stored.WaitContext(ctx)
		if err == nil && !confirmed {
			err = errors.New("the broker refused a message")
		}
		return err
	}, nil
}

// OpenReceiver implements bench.Connection.
func (c rabbitConn) OpenReceiver(_ context.Context, entity string, o bench.ReceiveOptions) (bench.ReceiverLink, error) {
	if o.Settle != bench.SettleFirst {
		return nil, fmt.Errorf("--settle %s: AMQP 0-9-1 confirms no acknowledgements; use %s", o.Settle, bench.SettleFirst)
	}
	channel, err := c.Channel()
	if err == nil {
		err = channel.Qos(o.Credit, 0, false)
	}
	if err != nil {
		return nil, fmt.Errorf("open a receiver of %s: %w", entity, err)
	}
	return &rabbitReceiver{channel: channel, queue: entity}, nil
}

// rabbitReceiver consumes with the options' credit as the number of messages that
// may be unacknowledged.
type rabbitReceiver struct {
	channel  *amqp091.Channel
	queue    string
	messages <-chan amqp091.Delivery
}

// IssueCredit implements bench.ReceiverLink. Acknowledgements renew it.
func (r *rabbitReceiver) IssueCredit(int) (err error) {
	if r.messages == nil {
		r.messages, err = r.channel.Consume(r.queue, "", false, false, false, false, nil)
	}
	return err
}

// Receive implements bench.ReceiverLink.
func (r *rabbitReceiver) Receive(ctx context.Context) (bench.Delivery, error) {
	select {
	case m, ok := <-r.messages:
		if !ok {
			return nil, amqp091.ErrClosed
		}
		return rabbitDelivery{m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type rabbitDelivery struct{ message amqp091.Delivery }

// Payload implements bench.Delivery.
func (d rabbitDelivery) Payload() []byte { return d.message.Body }

// Accept implements bench.Delivery.
func (d rabbitDelivery) Accept(context.Context) error { return d.message.Ack(false) }

// Release implements bench.Delivery.
func (d rabbitDelivery) Release(context.Context) error { return d.message.Nack(false, true) }
