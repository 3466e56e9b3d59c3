package e2e

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// manage calls an operation of an entity's $management node with go-amqp, wants
// it to succeed, and returns the answer's body.
func (e *env) manage(entity, operation string, body map[string]any) map[string]any {
	e.Helper()
	reply := e.ask(entity, operation, body)
	if status := reply.ApplicationProperties["statusCode"]; status != int32(200) {
		e.Fatalf("%s: got status %v: %v", operation, status, reply.ApplicationProperties["statusDescription"])
	}
	m, _ := reply.Value.(map[string]any)
	return m
}

// completeByToken completes a message that another connection has taken.
func (e *env) completeByToken(entity string, m *azservicebus.ReceivedMessage) {
	e.Helper()
	e.manage(entity, "com.microsoft:update-disposition", map[string]any{
		"disposition-status": "completed", "lock-tokens": []amqp.UUID{m.LockToken},
	})
}

// wantLockLost completes a message by its token alone, which must be refused.
// The SDK itself does not ask when it knows that it has settled a message.
func (e *env) wantLockLost(entity string, m *azservicebus.ReceivedMessage) {
	e.Helper()
	reply := e.ask(entity, "com.microsoft:update-disposition", map[string]any{
		"disposition-status": "completed", "lock-tokens": []amqp.UUID{m.LockToken},
	})
	p := reply.ApplicationProperties
	if p["statusCode"] != int32(410) || fmt.Sprint(p["errorCondition"]) != "com.microsoft:message-lock-lost" {
		e.Fatalf("completing message %d again: got %v, want 410 and lock-lost", *m.SequenceNumber, p)
	}
}

// ask sends a request to an entity's $management node and returns the answer.
func (e *env) ask(entity, operation string, body map[string]any) *amqp.Message {
	e.Helper()
	return e.askOn(e.amqp(), entity, operation, body)
}

// askOn is ask on a connection that holds what the request is about.
func (e *env) askOn(session *amqp.Session, entity, operation string, body map[string]any) *amqp.Message {
	e.Helper()
	node := entity + "/$management"
	replies, err := session.NewReceiver(e.ctx(), node, &amqp.ReceiverOptions{TargetAddress: "replies"})
	if err != nil {
		e.Fatal(err)
	}
	requests, err := session.NewSender(e.ctx(), node, nil)
	if err != nil {
		e.Fatal(err)
	}
	err = requests.Send(e.ctx(), &amqp.Message{
		Properties:            &amqp.MessageProperties{MessageID: uint64(7), ReplyTo: new("replies")},
		ApplicationProperties: map[string]any{"operation": operation},
		Value:                 body,
	}, nil)
	if _, rejected := errors.AsType[*amqp.Error](err); err != nil && !rejected { // the answer says why it is rejected
		e.Fatal(err)
	}
	reply, err := replies.Receive(e.ctx(), nil)
	if err != nil {
		e.Fatal(err)
	}
	if reply.Properties == nil || reply.Properties.CorrelationID != uint64(7) {
		e.Fatalf("%s: the answer's correlation id is %#v", operation, reply.Properties)
	}
	if err := cmp.Or(replies.Close(e.ctx()), requests.Close(e.ctx())); err != nil {
		e.Fatal(err)
	}
	return reply
}

// uuids is an array of one UUID for a request.
func uuids(e *env, text string) []amqp.UUID {
	e.Helper()
	var u amqp.UUID
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(u) {
		e.Fatalf("%q is not a UUID", text)
	}
	copy(u[:], b)
	return []amqp.UUID{u}
}

// uuidText is the text of a UUID.
func uuidText(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
}
