// Package tracing makes OpenTelemetry spans of what becomes of messages: an
// interceptor of calls, and wrappers around a core.Store and core.Routers, which are
// not there when traces are off, and an exporter that nothing waits for.
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

// How long an export is retried that a collector does not accept: in the meantime the
// queue fills, and what it cannot hold is dropped.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Second
	retries    = 15 * time.Second
)

// Options say where spans go. Headers, certificates, time-outs, compression, the
// queue and its batches, and further attributes of the resource are read from the
// variables of the process that OpenTelemetry specifies.
type Options struct {
	Endpoint string  // URL of a collector; "" turns traces off
	Protocol string  // HTTP or GRPC
	Sample   float64 // of messages that bring no trace along, 0 to 1
	Version  string
	Logger   *slog.Logger // nil: no log
	// Exporter takes the spans instead of a collector; nil: none.
	Exporter sdk.SpanExporter
}

// Tracing makes spans. All methods are safe for concurrent use. Those of a nil
// Tracing, which is what there is when traces are off, return what they are given.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
	sample   float64
	held     *held
}

// New makes a Tracing, nil if it is off. It does not wait for the collector. The
// caller has to call Stop.
func New(ctx context.Context, o Options) (*Tracing, error) {
	if o.Endpoint == "" && o.Exporter == nil {
		return nil, nil
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
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
		sdk.WithSampler(sdk.AlwaysSample()), // what is not sampled is not begun
	)
	t.tracer = t.provider.Tracer("github.com/crosstown-mq/crosstown", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// dial makes the exporter for a collector. It connects later.
func dial(ctx context.Context, o *Options) (sdk.SpanExporter, error) {
	if o.Protocol == GRPC {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.Endpoint),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retries}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: retries}))
}

// Stop sends what is left, as far as ctx allows, and stops.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	stopped := make(chan error, 1)
	go func() { stopped <- t.provider.Shutdown(context.WithoutCancel(ctx)) }() // it ends soon after giveUp
	return cmp.Or(<-stopped, t.exporter.lost())
}

// chosen decides for a message that brings no trace along.
func (t *Tracing) chosen() bool { return t.sample >= 1 || t.sample > 0 && rand.Float64() < t.sample }

// start begins a span below a parent, which may be invalid: then it is a root.
func (t *Tracing) start(parent trace.SpanContext, name string, o ...trace.SpanStartOption) trace.Span {
	_, s := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), parent), name, o...)
	return s
}

// exporter exports spans, and logs when it begins to fail and when it
// recovers: in between, spans are dropped.
type exporter struct {
	inner    sdk.SpanExporter
	log      *slog.Logger
	endpoint string
	stopped  context.Context // ends when nothing may take time any more
	giveUp   context.CancelFunc

	mu      sync.Mutex
	failing bool
	dropped int // since it has been failing
}

func newExporter(inner sdk.SpanExporter, endpoint string, log *slog.Logger) *exporter {
	e := &exporter{inner: inner, log: log, endpoint: endpoint}
	e.stopped, e.giveUp = context.WithCancel(context.Background())
	return e
}

// ExportSpans implements the SDK's SpanExporter. Failures are reported to the
// log here, once: the SDK would print each time.
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
			e.log.Warn("the collector takes no traces: they are dropped", "endpoint", e.endpoint, "err", err)
		}
		e.failing = true
	case e.failing:
		e.log.Info("the collector takes traces again", "endpoint", e.endpoint, "dropped", e.dropped)
		e.failing, e.dropped = false, 0
	}
	return nil
}

// Shutdown implements the SDK's SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }

// lost is what became of the last spans, if they were not taken.
func (e *exporter) lost() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.failing {
		return nil
	}
	return fmt.Errorf("the collector at %s did not take the last %d spans", e.endpoint, e.dropped)
}
