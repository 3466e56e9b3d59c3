package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// sdk connects the official client, which puts tokens.
func sdk(t *testing.T, addr string) *azservicebus.Client {
	t.Helper()
	c, err := azservicebus.NewClientFromConnectionString(fmt.Sprintf(
		"Endpoint=sb://%s;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true", addr), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func sdkContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func sdkSend(t *testing.T, c *azservicebus.Client, queue string, bodies ...string) {
	t.Helper()
	ctx := sdkContext(t)
	s, err := c.NewSender(queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(ctx) }()
	for _, body := range bodies {
		if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte(body)}, nil); err != nil {
			t.Fatalf("send %q: %v", body, err)
		}
	}
}

func sdkReceive(t *testing.T, r *azservicebus.Receiver, n int) []*azservicebus.ReceivedMessage {
	t.Helper()
	var got []*azservicebus.ReceivedMessage
	for len(got) < n {
		ms, err := r.ReceiveMessages(sdkContext(t), n-len(got), nil)
		if err != nil {
			t.Fatalf("receive after %d of %d: %v", len(got), n, err)
		}
		got = append(got, ms...)
	}
	return got
}

func bodies(ms []*azservicebus.ReceivedMessage) []string {
	var out []string
	for _, m := range ms {
		out = append(out, string(m.Body))
	}
	return out
}

func TestSDKSendsAndReceives(t *testing.T) {
	t.Parallel()
	c := sdk(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	sdkSend(t, c, "q1", "a", "b", "c")
	r, err := c.NewReceiverForQueue("q1", nil)
	if err != nil {
		t.Fatal(err)
	}
	ms := sdkReceive(t, r, 3)
	if got, want := bodies(ms), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("bodies: got %v, want %v", got, want)
	}
	for _, m := range ms {
		if err := r.CompleteMessage(sdkContext(t), m, nil); err != nil {
			t.Errorf("complete: %v", err)
		}
	}
}

func TestSDKSendsBatchAtomically(t *testing.T) {
	t.Parallel()
	c := sdk(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	ctx := sdkContext(t)
	s, err := c.NewSender("q1", nil)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := s.NewMessageBatch(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := batch.AddMessage(&azservicebus.Message{Body: []byte{byte(i)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SendMessageBatch(ctx, batch, nil); err != nil {
		t.Fatal(err)
	}
	r, err := c.NewReceiverForQueue("q1", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range sdkReceive(t, r, 50) {
		if m.Body[0] != byte(i) {
			t.Fatalf("message %d: got body %d", i, m.Body[0])
		}
	}
}

func TestSDKMissingQueueIsNotFound(t *testing.T) {
	t.Parallel()
	c := sdk(t, serve(t, newFakeBroker(), &fakeAuthority{}, Options{}))
	s, err := c.NewSender("nowhere", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.SendMessage(sdkContext(t), &azservicebus.Message{}, nil)
	e, ok := errors.AsType[*azservicebus.Error](err)
	if !ok || e.Code != azservicebus.CodeNotFound {
		t.Errorf("send: got %v, want code %s", err, azservicebus.CodeNotFound)
	}
}
