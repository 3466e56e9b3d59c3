// Package tracing creates OpenTelemetry spans for the events of messages. Spans come from an
// interceptor of calls and from wrappers of core.Store, core.Router and core.Remote. Callers never
// wait for the exporter.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	HTTP = "http" // OTLP, protobuf over HTTP
	GRPC = "grpc" // OTLP over gRPC
)

// Times for which the exporter retries when the collector does not accept spans. Meanwhile the
// queue fills; the exporter drops spans that do not fit.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Second
	retries    = 15 * time.Second
)

// maxHeld limits the deliveries whose spans are kept. Settlements of older deliveries have no span.
const maxHeld = 20_000

// Options configure a Tracing. OpenTelemetry's environment variables also apply: for headers,
// certificates, time-outs, compression, the queue and its batches, and attributes of the resource.
type Options struct {
	Endpoint string  // URL of a collector; "" turns traces off
	Protocol string  // HTTP or GRPC
	Sample   float64 // the fraction of messages without a trace for which the gateway begins one
	Version  string
	Logger   *slog.Logger // nil logs nothing
	// Exporter, if not nil, replaces the exporter to the collector.
	Exporter sdk.SpanExporter
}

// Tracing creates spans. It is safe for concurrent use. If traces are off, it is nil, and its
// methods return their arguments unchanged.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
	sample   float64
	held     *lru.Cache[core.LockToken, trace.SpanContext] // spans of deliveries that are not settled
}

// New returns a Tracing, which the caller must Stop, or nil if traces are off.
func New(ctx context.Context, o Options) (*Tracing, error) {
	if o.Endpoint == "" && o.Exporter == nil {
		return nil, nil
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	inner := o.Exporter
	if inner == nil {
		var err error
		if inner, err = dial(ctx, &o); err != nil {
			return nil, fmt.Errorf("cannot set up the export of traces to %s: %w", o.Endpoint, err)
		}
	}
	about, err := resource.New(
		ctx, resource.WithAttributes(attribute.String("service.name", "crosstown"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("cannot read the resource attributes of traces, such as OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Tracing{exporter: &exporter{inner: inner, log: o.Logger, endpoint: o.Endpoint}, sample: o.Sample}
	t.exporter.stopped, t.exporter.giveUp = context.WithCancel(context.Background())
	t.held, _ = lru.New[core.LockToken, trace.SpanContext](maxHeld) // the size is valid
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(t.exporter), sdk.WithResource(about),
		sdk.WithSampler(sdk.AlwaysSample()), // the gateway samples before it begins a span
	)
	t.tracer = t.provider.Tracer("github.com/crosstown-mq/crosstown", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

func dial(ctx context.Context, o *Options) (sdk.SpanExporter, error) {
	if o.Protocol == GRPC {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.Endpoint),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retries}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retries}))
}

// Stop sends the remaining spans and stops. It returns at the latest when ctx ends.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	stopped := make(chan error, 1)
	go func() { stopped <- t.provider.Shutdown(context.WithoutCancel(ctx)) }() // ends soon after giveUp
	return cmp.Or(<-stopped, t.exporter.lost())
}

func (t *Tracing) chosen() bool { return t.sample >= 1 || t.sample > 0 && rand.Float64() < t.sample }

func (t *Tracing) start(parent trace.SpanContext, name string, o ...trace.SpanStartOption) trace.Span {
	_, s := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), parent), name, o...)
	return s
}

// exporter logs when exports begin to fail and when they succeed again. It drops spans that fail.
type exporter struct {
	inner    sdk.SpanExporter
	log      *slog.Logger
	endpoint string
	stopped  context.Context // ends when Stop stops waiting
	giveUp   context.CancelFunc

	mu      sync.Mutex
	failing bool
	dropped int // spans dropped since exports began to fail
}

// ExportSpans logs only the first of several failures, and returns none: the SDK would print each.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopped, cancel)()
	err := e.inner.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil:
		e.dropped += len(spans)
		if !e.failing {
			e.log.Warn("the collector does not accept traces: they are dropped", "endpoint", e.endpoint, "err", err)
		}
		e.failing = true
	case e.failing:
		e.log.Info("the collector accepts traces again", "endpoint", e.endpoint, "dropped", e.dropped)
		e.failing, e.dropped = false, 0
	}
	return nil
}

func (e *exporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }

func (e *exporter) lost() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.failing {
		return nil
	}
	return fmt.Errorf("the collector at %s did not accept the last %d spans", e.endpoint, e.dropped)
}
