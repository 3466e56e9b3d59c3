package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter sends spans on, and tells the log when it begins to fail and when it
// is over: spans are dropped meanwhile.
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

// ExportSpans implements the SDK's SpanExporter. What goes wrong is told to the
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
