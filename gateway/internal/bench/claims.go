package bench

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"time"

	"github.com/Azure/go-amqp"
)

// tokenLife outlasts any sensible run, so that tokens need no renewal.
const tokenLife = 24 * time.Hour

// audience is the resource URI of the entity.
func (t *target) audience() string { return t.address + "/" + t.entity }

// sign makes a shared access signature: HMAC-SHA256 over the encoded resource,
// a line feed and the expiry in Unix seconds, with the key's text as the key.
func sign(resource, policy, key string, expires time.Time) string {
	sr := url.QueryEscape(resource)
	se := fmt.Sprint(expires.Unix())
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	sig := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "SharedAccessSignature sr=" + sr + "&sig=" + sig + "&se=" + se + "&skn=" + url.QueryEscape(policy)
}

// putToken proves our rights on the entity over the connection's $cbs node.
func (t *target) putToken(ctx context.Context, conn *amqp.Conn) error {
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(ctx) }() // the token outlives the session that brought it
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
		token = sign(t.audience(), t.policy, t.key, time.Now().Add(tokenLife))
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
	if status, _ := reply.ApplicationProperties["status-code"].(int32); status < 200 || status > 299 {
		return fmt.Errorf("the broker answered %d: %v", status, reply.ApplicationProperties["status-description"])
	}
	return nil
}
