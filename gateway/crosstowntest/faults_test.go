package crosstowntest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
)

// patient makes a client that tries again at once.
func patient(t *testing.T, b *Bus) *azservicebus.Client {
	t.Helper()
	c, err := azservicebus.NewClientFromConnectionString(b.ConnectionString, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: time.Millisecond, MaxRetryDelay: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestASenderTriesAgain(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("other"), Queue("once", func(s *core.Settings) { s.RequiresDuplicateDetection = true }))
	c := patient(t, b)
	b.Inject(Fault{Entity: "q", Skip: 1, Times: 2})
	send(t, c, "q", "one", "two")
	send(t, c, "other", "three")
	b.ExpectMessages("q", "one", "two")
	b.ExpectFaultsMet()

	b.Inject(Fault{Entity: "other", Done: true}) // the answer is lost, so the SDK sends it twice
	send(t, c, "other", "four")
	b.ExpectMessages("other", "three", "four", "four")

	b.Inject(Fault{Entity: "once", Done: true})
	s, err := c.NewSender("once", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "m"
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("five"), MessageID: &id}, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectMessages("once", "five")

	b.Inject(Fault{Entity: "q", Code: core.QuotaExceeded})
	s, err = c.NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("six")}, nil); err == nil {
		t.Error("a full queue took a message")
	}
	b.ExpectMessages("q", "one", "two")
}

func TestAReceiverMeetsFaults(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("s", func(s *core.Settings) { s.RequiresSession = true }))
	c := connect(t, b)
	send(t, c, "q", "one")
	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := receive(t, r)
	b.Inject(Fault{Operation: Renew, Code: core.LockLost})
	b.Inject(Fault{Operation: Settle, Code: core.LockLost})
	var lost *azservicebus.Error
	if err := r.RenewMessageLock(t.Context(), m, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("renew: got %v", err)
	}
	if err := r.CompleteMessage(t.Context(), m, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("complete: got %v", err)
	}
	b.ExpectMessages("q", "one")

	b.Inject(Fault{Operation: AcceptSession, Entity: "s", Code: core.Unauthorized})
	if _, err := c.AcceptSessionForQueue(t.Context(), "s", "x", nil); err == nil {
		t.Error("a session was accepted")
	}
	began := time.Now()
	b.Inject(Fault{Operation: Send, Delay: 50 * time.Millisecond, OnlyDelay: true})
	send(t, c, "q", "two")
	if time.Since(began) < 50*time.Millisecond {
		t.Error("it did not wait")
	}
	b.ExpectMessages("q", "one", "two")

	b.Inject(Fault{Operation: Peek, Times: 2})
	noted := &failed{TB: t}
	other := *b
	other.tb = noted
	other.ExpectFaultsMet()
	if want := "a fault was not met 2 times"; len(noted.text) < len(want) || noted.text[:len(want)] != want {
		t.Errorf("got %q, want %q", noted.text, want)
	}
}
