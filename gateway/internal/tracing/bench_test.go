package tracing_test

import (
	"context"
	"strconv"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
)

// sink is an exporter that forgets.
type sink struct{}

func (sink) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (sink) Shutdown(context.Context) error                        { return nil }

// BenchmarkRoundTrip sends, receives and completes so many messages at a time,
// without traces, and with the given part of the messages traced; it measures per
// message. What it takes to encode spans and to send them is not in it.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run("batch="+strconv.Itoa(size)+"/traces=none", func(b *testing.B) { // no wrapper, by the code that would make it
			var off *tracing.Tracing
			roundTrip(b, off, size)
		})
		for _, sample := range []float64{0, 0.01, 1} {
			b.Run("batch="+strconv.Itoa(size)+"/traces="+strconv.FormatFloat(sample, 'g', -1, 64), func(b *testing.B) {
				traces, err := tracing.New(b.Context(), tracing.Options{Exporter: sink{}, Sample: sample})
				if err != nil {
					b.Fatal(err)
				}
				roundTrip(b, traces, size)
				if err := traces.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func roundTrip(b *testing.B, traces *tracing.Tracing, size int) {
	ctx := b.Context()
	inner := broker.New(traces.Store(memory.New(memory.Options{})), broker.Options{Namespace: "ns"})
	if _, err := inner.CreateEntity(ctx, root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
		b.Fatal(err)
	}
	front := intercept.New(&intercept.Space{Broker: inner}, traces.Protocol("bench")...)
	s, err := front.OpenSender(ctx, root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var got []core.Settlement
	all := make(chan struct{}, 1)
	r, err := front.OpenReceiver(ctx, root, core.At("q"), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
		for i := range ds {
			got = append(got, core.Settlement{Token: ds[i].LockToken})
		}
		if len(got) == size {
			all <- struct{}{}
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	groups := make([][]*core.Message, size)
	body := make([]byte, 1024)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%size != 0 {
			continue
		}
		for i := range groups {
			groups[i] = []*core.Message{{Body: core.Body{Bytes: body}}}
		}
		r.AddCredit(size, core.AnyMessage)
		s.Send(ctx, groups)
		<-all
		front.Settle(ctx, root, core.Address{Entity: "q"}, got)
		got = got[:0]
	}
}
