package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

// ackWait is how long a receiver may keep a message: as long as the default lock of a queue.
const ackWait = time.Minute

// natsConn is a connection to a NATS server with JetStream.
type natsConn struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

func dialNATS(_ context.Context, url string) (bench.Connection, error) {
	conn, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return natsConn{conn, js}, nil
}

// Close implements bench.Connection.
func (c natsConn) Close() error {
	c.conn.Close()
	return nil
}

// stream returns the stream of an entity, made if there is none.
func (c natsConn) stream(ctx context.Context, entity string) (jetstream.Stream, error) {
	stream, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: entity, Subjects: []string{entity}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("make the stream %s: %w", entity, err)
	}
	return stream, nil
}

// OpenSender implements bench.Connection.
func (c natsConn) OpenSender(ctx context.Context, entity string) (bench.SenderLink, error) {
	if _, err := c.stream(ctx, entity); err != nil {
		return nil, err
	}
	return natsSender{c.js, entity}, nil
}

type natsSender struct {
	js      jetstream.JetStream
	subject string
}

// Send implements bench.SenderLink. The client copies the payload, and does not send it again after
// a failure.
func (s natsSender) Send(_ context.Context, payload []byte) (wait func(context.Context) error, err error) {
	stored, err := s.js.PublishAsync(s.subject, payload, jetstream.WithRetryAttempts(0))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		select {
		case <-stored.Ok():
			return nil
		case err := <-stored.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

// OpenReceiver implements bench.Connection. All receivers of an entity share one
// consumer.
func (c natsConn) OpenReceiver(ctx context.Context, entity string, o bench.ReceiveOptions) (bench.ReceiverLink, error) {
	if o.Settle == bench.SettleNone {
		return nil, errors.New("--settle none: a stream's messages leave it only when they are acknowledged")
	}
	stream, err := c.stream(ctx, entity)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "receivers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxAckPending: -1, // the receivers' credit bounds it
	})
	if err != nil {
		return nil, fmt.Errorf("make the consumer of %s: %w", entity, err)
	}
	return &natsReceiver{consumer: consumer, options: o}, nil
}

// natsReceiver pulls from a consumer.
type natsReceiver struct {
	consumer jetstream.Consumer
	options  bench.ReceiveOptions
	messages jetstream.MessagesContext
}

// IssueCredit implements bench.ReceiverLink. The client pulls as much again
// whenever half of it has arrived.
func (r *natsReceiver) IssueCredit(n int) (err error) {
	if r.messages == nil {
		r.messages, err = r.consumer.Messages(jetstream.PullMaxMessages(n))
	}
	return err
}

// Receive implements bench.ReceiverLink.
func (r *natsReceiver) Receive(ctx context.Context) (bench.Delivery, error) {
	m, err := r.messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return nil, err
	}
	return natsDelivery{m, r.options.Settle}, nil
}

type natsDelivery struct {
	message jetstream.Msg
	settle  bench.Settle
}

// Payload implements bench.Delivery.
func (d natsDelivery) Payload() []byte { return d.message.Data() }

// Accept implements bench.Delivery.
func (d natsDelivery) Accept(ctx context.Context) error {
	if d.settle == bench.SettleFirst {
		return d.message.Ack()
	}
	return d.message.DoubleAck(ctx)
}

// Release implements bench.Delivery.
func (d natsDelivery) Release(context.Context) error { return d.message.Nak() }
