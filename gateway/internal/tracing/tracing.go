// Package tracing creates OpenTelemetry spans for the events of messages. It consists of an
// interceptor of calls, wrappers around a core.Store and core.Routers, and an exporter. If traces
// are off, the interceptor and the wrappers do not exist. No caller waits for the exporter.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The protocols in which spans are sent.
const (
	HTTP = "http" // OTLP, protobuf over HTTP
	GRPC = "grpc" // OTLP over gRPC
)

// How long an export that the collector does not accept is retried. In the meantime the queue
// fills, and spans that do not fit into it are dropped.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Second
	retries    = 15 * time.Second
)

// Options determine where spans are sent. Headers, certificates, time-outs, compression, the queue
// and its batches, and further attributes of the resource come from the environment variables that
// OpenTelemetry specifies.
type Options struct {
	Endpoint string  // URL of a collector; "" turns traces off
	Protocol string  // HTTP or GRPC
	Sample   float64 // share of messages without a trace that are traced, 0 to 1
	Version  string
	Logger   *slog.Logger // nil: no log
	// Exporter, if not nil, takes the spans instead of a collector.
	Exporter sdk.SpanExporter
}

// Tracing creates spans. All methods are safe for concurrent use. If traces are off, the Tracing is
// nil, and its methods return their arguments unchanged.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
	sample   float64
	held     *held
}

// New creates a Tracing, or returns nil if traces are off. It does not wait for the collector. The
// caller must call Stop.
func New(ctx context.Context, o Options) (*Tracing, error) {
	if o.Endpoint == "" && o.Exporter == nil {
		return nil, nil
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	inner := o.Exporter
	if inner == nil {
		var err error
		if inner, err = dial(ctx, &o); err != nil {
			return nil, fmt.Errorf("traces to %s: %w", o.Endpoint, err)
		}
	}
	about, err := resource.New(
		ctx, resource.WithAttributes(attribute.String("service.name", "crosstown"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Tracing{
		exporter: newExporter(inner, o.Endpoint, o.Logger),
		sample:   o.Sample,
		held:     newHeld(maxHeld),
	}
	t.provider = sdk.NewTracerProvider(
		sdk.WithBatcher(t.exporter), sdk.WithResource(about),
		sdk.WithSampler(sdk.AlwaysSample()), // spans that are not sampled never begin
	)
	t.tracer = t.provider.Tracer("github.com/crosstown-mq/crosstown", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// dial makes the exporter for a collector. The exporter connects later.
func dial(ctx context.Context, o *Options) (sdk.SpanExporter, error) {
	if o.Protocol == GRPC {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.Endpoint),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retries}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retries}))
}

// Stop sends the remaining spans until ctx ends, and stops.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	stopped := make(chan error, 1)
	go func() { stopped <- t.provider.Shutdown(context.WithoutCancel(ctx)) }() // it ends soon after giveUp
	return cmp.Or(<-stopped, t.exporter.lost())
}

// chosen decides whether to trace a message without a trace.
func (t *Tracing) chosen() bool { return t.sample >= 1 || t.sample > 0 && rand.Float64() < t.sample }

// start begins a span as a child of parent or, if that is invalid, as a root.
func (t *Tracing) start(parent trace.SpanContext, name string, o ...trace.SpanStartOption) trace.Span {
	_, s := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), parent), name, o...)
	return s
}

// exporter exports spans, and logs when it begins to fail and when it recovers. In between, spans
// are dropped.
type exporter struct {
	inner    sdk.SpanExporter
	log      *slog.Logger
	endpoint string
	stopped  context.Context // ends when Stop may wait no longer
	giveUp   context.CancelFunc

	mu      sync.Mutex
	failing bool
	dropped int // spans dropped since exports began to fail
}

func newExporter(inner sdk.SpanExporter, endpoint string, log *slog.Logger) *exporter {
	e := &exporter{inner: inner, log: log, endpoint: endpoint}
	e.stopped, e.giveUp = context.WithCancel(context.Background())
	return e
}

// ExportSpans implements the SDK's SpanExporter. It logs a failure only once, whereas the SDK would
// print it each time.
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

// Shutdown implements the SDK's SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }

// lost returns an error if the collector did not accept the last spans.
func (e *exporter) lost() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.failing {
		return nil
	}
	return fmt.Errorf("the collector at %s did not accept the last %d spans", e.endpoint, e.dropped)
}
