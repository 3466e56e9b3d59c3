package crosstowntest

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// connect makes a client of the official SDK.
func connect(tb testing.TB, b *Bus) *azservicebus.Client {
	tb.Helper()
	c, err := azservicebus.NewClientFromConnectionString(b.ConnectionString, &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// send sends messages with these bodies.
func send(tb testing.TB, c *azservicebus.Client, entity string, bodies ...string) {
	tb.Helper()
	s, err := c.NewSender(entity, nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = s.Close(tb.Context()) }()
	for _, body := range bodies {
		properties := map[string]any{"length": int64(len(body))}
		if err := s.SendMessage(tb.Context(), &azservicebus.Message{Body: []byte(body), ApplicationProperties: properties}, nil); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestAClientMeetsItsEntities(t *testing.T) {
	t.Parallel()
	b := Start(t,
		Queue("orders", func(s *core.Settings) { s.MaxDeliveryCount = 1 }),
		Topic("events"), Subscription("events", "all"), Subscription("events", "long").Where("length > 3"),
	)
	c := connect(t, b)
	send(t, c, "orders", "one", "two")
	b.ExpectMessages("orders", "one", "two")
	send(t, c, "events", "one", "three")
	b.ExpectMessages("events/Subscriptions/all", "one", "three")
	b.ExpectMessages("events/Subscriptions/long", "three")

	r, err := c.NewReceiverForQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.ReceiveMessages(t.Context(), 2, nil)
	if err != nil || len(got) != 2 {
		t.Fatalf("received %d messages, %v", len(got), err)
	}
	if err := r.CompleteMessage(t.Context(), got[0], nil); err != nil {
		t.Fatal(err)
	}
	if err := r.AbandonMessage(t.Context(), got[1], nil); err != nil {
		t.Fatal(err)
	}
	b.ExpectEmpty("orders")
	b.ExpectDeadLetters("orders", core.ReasonMaxDeliveryCount)
}

func TestNamespacesOfOneGatewayAreApart(t *testing.T) {
	t.Parallel()
	first := Start(t, Queue("q"))
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			b := first.Namespace(t, Queue("q"))
			send(t, connect(t, b), "q", fmt.Sprint(i))
			b.ExpectMessages("q", fmt.Sprint(i))
		})
	}
	first.ExpectEmpty("q")
}

// failed is a test that notes how it fails.
type failed struct {
	testing.TB
	text string
}

func (f *failed) Helper() {}

func (f *failed) Errorf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func (f *failed) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

// failure is the text with which f fails a test.
func failure(b *Bus, f func(b *Bus)) (text string) {
	noted := &failed{TB: b.tb}
	other := *b
	other.tb, other.Patience = noted, 10*time.Millisecond
	defer func() {
		if r := recover(); r != nil && r != any(noted) {
			panic(r)
		}
		text = noted.text
	}()
	f(&other)
	return ""
}

func TestAFailureShowsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := Start(t, Queue("q"))
	if got := failure(b, func(b *Bus) { b.ExpectMessages("q", "x") }); got != `'q' should hold messages ["x"]; it holds none` {
		t.Errorf("an empty queue: got %q", got)
	}
	send(t, connect(t, b), "q", "one", strings.Repeat("z", 100))
	got := failure(b, func(b *Bus) { b.ExpectEmpty("q") })
	for _, want := range []string{"'q' should hold no message; it holds 2:", `number 1, ready, delivered 0 times: "one"`, strings.Repeat("z", 80) + "…"} {
		if !strings.Contains(got, want) {
			t.Errorf("a queue with messages: got %q, want %q in it", got, want)
		}
	}
	if got := failure(b, func(b *Bus) { b.ExpectDeadLetters("missing") }); !strings.Contains(got, "the messages of 'missing/$DeadLetterQueue': The messaging entity") {
		t.Errorf("a missing queue: got %q", got)
	}
}

func TestNothingIsLeftOfABus(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("bus", func(t *testing.T) {
		b := Start(t, Queue("q"))
		send(t, connect(t, b), "q", "one")
		b.ExpectMessages("q", "one")
	})
	if !eventually.Within(time.Minute, func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	}
}

// BenchmarkStart is the life of a gateway.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		g, err := startGateway(b.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		if err := g.stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNamespace is a namespace with a queue at a gateway that runs.
func BenchmarkNamespace(b *testing.B) {
	bus := Start(b)
	for b.Loop() {
		bus.Namespace(b, Queue("q"))
	}
}
