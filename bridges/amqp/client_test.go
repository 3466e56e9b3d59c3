package amqp

import (
	"context"
	"errors"
	"strings"
	"testing"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// dial connects go-amqp as the policy root with all rights.
func dial(t *testing.T, addr string) *goamqp.Conn {
	t.Helper()
	c, err := goamqp.Dial(t.Context(), "amqp://"+addr, &goamqp.ConnOptions{HostName: "ns.example", SASLType: goamqp.SASLTypePlain("root", "secret")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func session(t *testing.T, c *goamqp.Conn) *goamqp.Session {
	t.Helper()
	s, err := c.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sender(t *testing.T, s *goamqp.Session, to string) *goamqp.Sender {
	t.Helper()
	snd, err := s.NewSender(t.Context(), to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return snd
}

func receiver(t *testing.T, s *goamqp.Session, from string) *goamqp.Receiver {
	t.Helper()
	r, err := s.NewReceiver(t.Context(), from, &goamqp.ReceiverOptions{SettlementMode: goamqp.ReceiverSettleModeSecond.Ptr(), Credit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSendReceiveAccept(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	c := dial(t, serve(t, b, &fakeAuthority{}, Options{}))
	snd := sender(t, session(t, c), "q1")
	if err := snd.Send(t.Context(), goamqp.NewMessage([]byte("hello")), nil); err != nil {
		t.Fatal(err)
	}
	r := receiver(t, session(t, c), "q1")
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Bound)
	defer cancel()
	m, err := r.Receive(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.GetData()); got != "hello" {
		t.Errorf("body: got %q, want %q", got, "hello")
	}
	if got := m.Annotations["x-opt-sequence-number"]; got != int64(1) {
		t.Errorf("sequence number: got %v, want 1", got)
	}
	if err := r.AcceptMessage(ctx, m); err != nil {
		t.Errorf("accept: %v", err)
	}
	if got := len(b.settled("q1")); got != 1 {
		t.Errorf("settlements: got %d, want 1", got)
	}
}

func TestMissingEntityIsRefusedInTheWordsClientsLookFor(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, newFakeBroker(), &fakeAuthority{}, Options{}))
	_, err := session(t, c).NewSender(t.Context(), "nowhere", nil)
	e, ok := errors.AsType[*goamqp.Error](err)
	if !ok || e.Condition != goamqp.ErrCondNotFound {
		t.Fatalf("attach: got %v, want %s", err, goamqp.ErrCondNotFound)
	}
	if want := "The messaging entity 'sb://ns.example/nowhere' could not be found."; !strings.Contains(e.Description, want) {
		t.Errorf("description: got %q, want %q", e.Description, want)
	}
}
