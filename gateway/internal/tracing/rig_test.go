package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing/tracingtest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

var root = core.Identity{{Namespace: "ns", Policy: "root", Rights: core.AllRights}}

// patience bounds every wait for something that should happen.
const patience = eventually.Bound

// shelf is an exporter that keeps spans.
type shelf struct {
	mu    sync.Mutex
	spans []tracingtest.Span
}

func (s *shelf) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range spans {
		c := r.SpanContext()
		span := tracingtest.Span{
			Name: r.Name(), Trace: c.TraceID().String(), ID: c.SpanID().String(),
			Attributes: map[string]any{}, Began: r.StartTime(), Ended: r.EndTime(),
		}
		if p := r.Parent(); p.IsValid() {
			span.Parent = p.SpanID().String()
		}
		for _, a := range r.Attributes() {
			span.Attributes[string(a.Key)] = a.Value.AsInterface()
		}
		for _, l := range r.Links() {
			span.Links = append(span.Links, l.SpanContext.SpanID().String())
		}
		if r.Status().Code == codes.Error {
			span.Error = r.Status().Description
		}
		s.spans = append(s.spans, span)
	}
	return nil
}

func (s *shelf) Shutdown(context.Context) error { return nil }

// rig is a broker whose messages are traced.
type rig struct {
	*testing.T
	*broker.Broker
	shelf   *shelf
	tracing *tracing.Tracing
	front   core.Broker
}

func newRig(t *testing.T, sample float64, pipelines func(*tracing.Tracing) []broker.Pipeline) *rig {
	t.Helper()
	r := &rig{T: t, shelf: &shelf{}}
	var err error
	if r.tracing, err = tracing.New(t.Context(), tracing.Options{Exporter: r.shelf, Sample: sample, Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	o := broker.Options{Namespace: "ns"}
	if pipelines != nil {
		o.Pipelines = pipelines(r.tracing)
	}
	r.serve(broker.New(r.tracing.Store(memory.New(memory.Options{})), o))
	return r
}

// serve has a broker run for as long as the test lasts.
func (r *rig) serve(b *broker.Broker) {
	r.Broker, r.front = b, intercept.New(&intercept.Space{Broker: b}, r.tracing.Protocol("test")...)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = b.Run(ctx) }) // it returns nil
	r.Cleanup(func() { cancel(); run.Wait() })
}

func (r *rig) queue(name string, change ...func(*core.Settings)) {
	r.Helper()
	s := core.DefaultSettings(core.Queue)
	for _, c := range change {
		c(&s)
	}
	if _, err := r.CreateEntity(r.Context(), root, core.Queue, name, s, nil); err != nil {
		r.Fatal(err)
	}
}

// message makes one with properties, given as name, value pairs.
func message(t testing.TB, pairs ...string) *core.Message {
	t.Helper()
	m := &core.Message{Body: core.Body{Bytes: []byte("hello")}}
	var all []core.Property
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, core.Property{Key: pairs[i], Value: pairs[i+1]})
	}
	var err error
	if m.Properties, err = core.NewProperties(all...); err != nil {
		t.Fatal(err)
	}
	return m
}

// send sends each group, in one call.
func (r *rig) send(to string, groups ...[]*core.Message) []core.Appended {
	r.Helper()
	s, err := r.front.OpenSender(r.Context(), root, core.At(to), nil)
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	return s.Send(r.Context(), groups)
}

// receive takes n messages.
func (r *rig) receive(from string, n int, mode core.ReceiveMode) []core.Delivery {
	r.Helper()
	come := make(chan core.Delivery, n)
	receiver, err := r.front.OpenReceiver(r.Context(), root, core.At(from), core.ReceiverOptions{Mode: mode, Deliver: func(ds []core.Delivery) {
		for _, d := range ds {
			come <- d
		}
	}})
	if err != nil {
		r.Fatal(err)
	}
	defer receiver.Close()
	receiver.AddCredit(n, core.AnyMessage)
	return gather(r.T, come, n)
}

func gather(t *testing.T, come chan core.Delivery, n int) (got []core.Delivery) {
	t.Helper()
	for deadline := time.After(patience); len(got) < n; {
		select {
		case d := <-come:
			got = append(got, d)
		case <-deadline:
			t.Fatalf("got %d of %d messages", len(got), n)
		}
	}
	return got
}

func (r *rig) settle(at string, d core.Delivery, o core.Outcome) error {
	return r.front.Settle(r.Context(), root, core.At(at), []core.Settlement{{Token: d.LockToken, Outcome: o}})[0]
}

// forwarded waits until an entity has forwarded what it had: a message is at its destination before its
// span ends.
func (r *rig) forwarded(name string) {
	r.Helper()
	eventually.True(r, name+" has forwarded what it had", func() bool {
		left, err := r.Peek(r.Context(), root, core.At(name), nil, 0, 1)
		if err != nil {
			r.Fatal(err)
		}
		return len(left) == 0
	})
}

// spans stops tracing and returns all that there was.
func (r *rig) spans() []tracingtest.Span {
	r.Helper()
	if err := r.tracing.Stop(r.Context()); err != nil {
		r.Fatal(err)
	}
	return r.shelf.spans
}

// wantTree compares the spans below one with a drawing.
func wantTree(t *testing.T, spans []tracingtest.Span, below, want string) {
	t.Helper()
	if got := tracingtest.Tree(spans, below); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// parentOf makes a traceparent, and says which span it names.
func parentOf(n int, flags string) (header, span string) {
	span = fmt.Sprintf("%016x", n)
	return fmt.Sprintf("00-%032x-%s-%s", n, span, flags), span
}

// clerk is a router that does as it is told.
type clerk func(ms []*core.Message) ([]core.Verdict, error)

func (c clerk) Route(_ context.Context, _ core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	return c(ms)
}

var errAway = errors.New("away")
