package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// The application or its SDK owns the properties, which the gateway never changes. The annotation
// is the gateway's, for later spans of the message.
const (
	propertyTraceParent  = "traceparent"
	propertyDiagnosticID = "Diagnostic-Id" // from SDKs, in the same form or an older one that is ignored
	propertyTraceState   = "tracestate"
	annotation           = "x-opt-traceparent"
)

// annotationSize bounds the size of the annotation, with the head of its map.
const annotationSize = 96

// origin returns the span in the gateway's annotation or, if the application names another trace,
// the application's. If there is none, the span is invalid.
func origin(m *core.Message) trace.SpanContext {
	if m.Properties.IsEmpty() && m.Annotations.IsEmpty() {
		return trace.SpanContext{}
	}
	var parent, diagnostic, noted, state string
	for k, raw := range value.MapEntries(m.Properties.Encoded()) {
		switch {
		case isNamed(k, propertyTraceParent):
			parent = text(raw)
		case isNamed(k, propertyDiagnosticID):
			diagnostic = text(raw)
		case isNamed(k, propertyTraceState):
			state = text(raw)
		}
	}
	for k, raw := range value.MapEntries(m.Annotations.Encoded()) {
		if string(k) == annotation {
			noted = text(raw)
		}
	}
	c, own := parse(parent, state), parse(noted, state)
	if !c.IsValid() {
		c = parse(diagnostic, state)
	}
	if own.IsValid() && (!c.IsValid() || c.TraceID() == own.TraceID()) {
		return own
	}
	return c
}

func isNamed(key []byte, name string) bool {
	return len(key) == len(name) && strings.EqualFold(string(key), name)
}

func text(raw []byte) string {
	v, _, err := value.Decode(raw, value.Limits{})
	if err != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case value.Symbol:
		return string(v)
	}
	return ""
}

var w3c propagation.TraceContext

// parse returns a context that is invalid if parent is malformed. It ignores a malformed state.
func parse(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{propertyTraceParent: parent, propertyTraceState: state}
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier))
}

func write(c trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier)
	return carrier[propertyTraceParent]
}

// usualLimit is the size limit of messages in most entities, in bytes.
const usualLimit = 256 << 10

// note stores the span c in m as the parent of m's later spans, unless m belongs to another trace
// or would exceed limit, in bytes: it would then be refused at its next admission.
func note(m *core.Message, c trace.SpanContext, limit int64) {
	own := origin(m)
	if own.IsValid() && own.TraceID() != c.TraceID() {
		return
	}
	if m.HeaderSize()+annotationSize > core.MaxHeaderBytes || int64(m.Size()+annotationSize) > limit {
		return
	}
	one, err := core.NewProperties(core.Property{Key: annotation, Value: write(c)})
	if err == nil { // a text can always be encoded
		m.Annotations = m.Annotations.Merge(one)
	}
}

// Requests returns a function that reads a request's origin, or nil if traces are off.
func (t *Tracing) Requests() func(*http.Request) context.Context {
	if t == nil {
		return nil
	}
	return func(r *http.Request) context.Context {
		return w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	}
}
