package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// tokenLife exceeds any run, so that tokens need not be renewed.
const tokenLife = 24 * time.Hour

func (t *target) audience() string { return t.address + "/" + t.entity }

func (t *target) putToken(ctx context.Context, conn *amqp.Conn) error {
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(ctx) }() // the token outlives the session
	const replyTo = "bench-claims"
	replies, err := session.NewReceiver(ctx, "$cbs", &amqp.ReceiverOptions{TargetAddress: replyTo})
	if err != nil {
		return err
	}
	requests, err := session.NewSender(ctx, "$cbs", nil)
	if err != nil {
		return err
	}
	token := t.token
	if token == "" {
		token = auth.SignSAS(t.audience(), t.policy, t.key, time.Now().Add(tokenLife))
	}
	err = requests.Send(ctx, &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: "put-token", ReplyTo: new(replyTo)},
		ApplicationProperties: map[string]any{
			"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": t.audience(),
		},
		Value: token,
	}, nil)
	if err != nil {
		return err
	}
	reply, err := replies.Receive(ctx, nil)
	if err != nil {
		return err
	}
	if err := replies.AcceptMessage(ctx, reply); err != nil {
		return err
	}
	status, ok := reply.ApplicationProperties["status-code"].(int32)
	switch {
	case !ok:
		return errors.New("the broker's answer to the token has no status, perhaps because the broker does not support tokens: use --url with a user name and password")
	case status < 200 || status > 299:
		return fmt.Errorf("the broker answered the token with status %d: %v", status, reply.ApplicationProperties["status-description"])
	default:
		return nil
	}
}
