package crosstowntest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
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

	b.Inject(Fault{Entity: "other", After: true}) // the answer is lost, so the SDK sends it twice
	send(t, c, "other", "four")
	b.ExpectMessages("other", "three", "four", "four")

	b.Inject(Fault{Entity: "once", After: true})
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
	b.Inject(Fault{Operation: faults.Renew, Code: core.LockLost})
	b.Inject(Fault{Operation: faults.Settle, Code: core.LockLost})
	var lost *azservicebus.Error
	if err := r.RenewMessageLock(t.Context(), m, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("renew: got %v", err)
	}
	if err := r.CompleteMessage(t.Context(), m, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("complete: got %v", err)
	}
	b.ExpectMessages("q", "one")

	b.Inject(Fault{Operation: faults.AcceptSession, Entity: "s", Code: core.Unauthorized})
	if _, err := c.AcceptSessionForQueue(t.Context(), "s", "x", nil); err == nil {
		t.Error("a session was accepted")
	}
	began := time.Now()
	b.Inject(Fault{Effect: faults.Delay, Delay: 50 * time.Millisecond})
	send(t, c, "q", "two")
	if time.Since(began) < 50*time.Millisecond {
		t.Error("it did not wait")
	}
	b.ExpectMessages("q", "one", "two")

	b.Inject(Fault{Operation: faults.Peek, Times: 2})
	noted := &failed{TB: t}
	other := *b
	other.tb = noted
	other.ExpectFaultsMet()
	if want := "(peek, fail) was met 0 times of 2"; !strings.Contains(noted.text, want) {
		t.Errorf("got %q, want %q", noted.text, want)
	}
}

// A connection that breaks, before or after a message was stored, is one that the SDK opens again.
func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("once", func(s *core.Settings) { s.RequiresDuplicateDetection = true }))
	c := patient(t, b)
	b.Inject(Fault{Entity: "q", Effect: faults.Drop})
	send(t, c, "q", "one")
	b.ExpectMessages("q", "one")
	b.Inject(Fault{Entity: "q", Effect: faults.Drop, After: true})
	send(t, c, "q", "two") // the SDK does not know that it was stored, and sends it again
	b.ExpectMessages("q", "one", "two", "two")

	b.Inject(Fault{Entity: "once", Effect: faults.Detach, After: true, Code: core.Internal})
	s, err := c.NewSender("once", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "m"
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("three"), MessageID: &id}, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectMessages("once", "three")

	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.Drop}) // the message is locked, and never comes
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for len(b.left()) > 0 && ctx.Err() == nil {
		_, _ = r.ReceiveMessages(ctx, 1, nil)
	}
	b.ExpectFaultsMet()
	b.Advance(time.Minute)
	if m := receive(t, r); string(m.Body) != "two" && string(m.Body) != "one" {
		t.Errorf("got %q", m.Body)
	}
}

// left are the faults that are still to be met.
func (b *Bus) left() (names []string) {
	for _, s := range b.faults().List() {
		if s.Met < s.Times {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestLocksAreLostAndMessagesComeAgain(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("s", func(s *core.Settings) { s.RequiresSession = true }))
	c := connect(t, b)
	r, err := c.NewReceiverForQueue("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, "q", "one")
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.LoseLock})
	first := receive(t, r)
	again := receive(t, r)
	if again.DeliveryCount != 2 || string(again.Body) != "one" {
		t.Errorf("delivered %d times: %q", again.DeliveryCount, again.Body)
	}
	var lost *azservicebus.Error
	if err := r.CompleteMessage(t.Context(), first, nil); !errors.As(err, &lost) || lost.Code != azservicebus.CodeLockLost {
		t.Errorf("complete under the lost lock: got %v", err)
	}
	b.Inject(Fault{Operation: faults.Complete, Effect: faults.DeliverTwice})
	if err := r.CompleteMessage(t.Context(), again, nil); err != nil {
		t.Fatal(err)
	}
	if third := receive(t, r); third.DeliveryCount != 3 {
		t.Errorf("delivered %d times", third.DeliveryCount)
	} else if err := r.CompleteMessage(t.Context(), third, nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectEmpty("q")

	sender, err := c.NewSender("s", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "x"
	if err := sender.SendMessage(t.Context(), &azservicebus.Message{SessionID: &id, Body: []byte("in session")}, nil); err != nil {
		t.Fatal(err)
	}
	b.Inject(Fault{Operation: faults.Deliver, Effect: faults.LoseLock})
	holder, err := c.AcceptSessionForQueue(t.Context(), "s", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := receive(t, holder)
	other, err := c.AcceptSessionForQueue(t.Context(), "s", id, nil)
	for deadline := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(deadline); {
		other, err = c.AcceptSessionForQueue(t.Context(), "s", id, nil)
	}
	if err != nil {
		t.Fatalf("the session is still locked: %v", err)
	}
	if err := holder.CompleteMessage(t.Context(), m, nil); err == nil {
		t.Error("the first holder has completed the message")
	}
	_ = other.Close(t.Context())
}

func TestFaultsAreForSomeOperations(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"), Queue("r"))
	c := connect(t, b)
	s, err := c.NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	colour := func(of string) error {
		return s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte(of), ApplicationProperties: map[string]any{"colour": of}}, nil)
	}
	b.Inject(Fault{Properties: map[string]string{"colour": "red"}, Times: 2, Client: "amqp 127.0.0.1"})
	b.Inject(Fault{Name: "others", Client: "another", Times: 100})
	b.Inject(Fault{Name: "all r", Entity: "r*", Effect: faults.Throttle, Rate: 0.001})
	for _, want := range []struct {
		of     string
		passes bool
	}{{"blue", true}, {"red", false}, {"blue", true}, {"red", false}, {"red", true}} {
		if err := colour(want.of); (err == nil) != want.passes {
			t.Errorf("%s: got %v", want.of, err)
		}
	}
	send(t, c, "r", "one")
	to, err := c.NewSender("r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.SendMessage(t.Context(), &azservicebus.Message{}, nil); err == nil {
		t.Error("the second of a thousand seconds has passed")
	}

	met := func() (n int) {
		b.faults().Clear()
		b.Inject(Fault{Entity: "q", Probability: 0.5, Seed: 7, Times: 100})
		for range 20 {
			_ = colour("green")
		}
		return b.faults().List()[0].Met
	}
	if one, two := met(), met(); one != two || one < 3 || one > 17 {
		t.Errorf("of 20 with a probability of a half %d and %d were met", one, two)
	}
}

func TestTokensAreRefusedAndEnd(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	b.Inject(Fault{Operation: faults.Authorize, Code: core.Unauthorized})
	s, err := connect(t, b).NewSender("q", nil)
	if err != nil {
		t.Fatal(err)
	}
	var refused *azservicebus.Error
	if err := s.SendMessage(t.Context(), &azservicebus.Message{}, nil); !errors.As(err, &refused) || refused.Code != azservicebus.CodeUnauthorizedAccess {
		t.Errorf("a token that is refused: got %v", err)
	}
	b.Inject(Fault{Operation: faults.Authorize, Effect: faults.ExpireToken, Times: 2})
	if s, err = connect(t, b).NewSender("q", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), &azservicebus.Message{}, nil); err == nil {
		t.Error("a message was sent with a token that has ended")
	}
	b.ExpectFaultsMet()
	b.ExpectEmpty("q")
}

func TestRulesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	rules := faults.New()
	for want, r := range map[string]faults.Rule{
		"is unknown: use abandon":    {Operation: "sned"},
		"does not fit the operation": {Operation: faults.Peek, Effect: faults.LoseLock},
		"The code":                   {Code: "sorry"},
		"After fits":                 {Effect: faults.Delay, Delay: 1, After: true},
		"1 to 1000000":               {Times: -1},
		"probability":                {Probability: 2},
		"needs a delay":              {Effect: faults.Delay},
		"The delay":                  {Delay: time.Hour},
		"A rate":                     {Effect: faults.Throttle},
		"The life":                   {Life: 48 * time.Hour},
		"Properties fit":             {Operation: faults.Renew, Properties: map[string]string{"a": "b"}},
	} {
		if _, err := rules.Add(r); core.CodeOf(err) != core.InvalidArgument || !strings.Contains(core.TextOf(err), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
	if _, err := rules.Add(faults.Rule{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rules.Add(faults.Rule{Name: "a"}); core.CodeOf(err) != core.AlreadyExists {
		t.Errorf("the same name: got %v", err)
	}
	if err := rules.Remove("b"); core.CodeOf(err) != core.NotFound {
		t.Errorf("remove another: got %v", err)
	}
	if err := rules.Remove("a"); err != nil || len(rules.List()) != 0 {
		t.Errorf("remove: %v", err)
	}
}
