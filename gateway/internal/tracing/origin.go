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

// The properties belong to the application or its SDK, and the gateway never changes them. The
// annotation belongs to the gateway, which needs it for later spans of the message.
const (
	propertyTraceParent  = "traceparent"
	propertyDiagnosticID = "Diagnostic-Id" // set by SDKs, in the same form or in an older one, which the gateway ignores
	propertyTraceState   = "tracestate"
	annotation           = "x-opt-traceparent"
)

// annotationSize is the largest size of the annotation, including the head of its map.
const annotationSize = 96

// origin returns the span that the gateway's annotation names. If the application names another
// trace, it returns the application's span, and without any an invalid one.
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

// parse returns an invalid context if parent is malformed. It ignores a malformed state.
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

// usualLimit is the largest message of most entities, in bytes.
const usualLimit = 256 << 10

// note stores the span c in m as the parent of m's later spans. It does not if m belongs to another
// trace, or would exceed limit bytes, because an entity would then refuse m.
func note(m *core.Message, c trace.SpanContext, limit int64) {
	own := origin(m)
	if own.IsValid() && own.TraceID() != c.TraceID() {
		return
	}
	if m.HeaderSize()+annotationSize > core.MaxHeaderBytes || int64(m.Size()+annotationSize) > limit {
		return
	}
	one, err := core.NewProperties(core.Property{Key: annotation, Value: write(c)})
	if err == nil { // no error: a string can always be encoded
		m.Annotations = m.Annotations.Merge(one)
	}
}

// Requests returns a function that adds a request's origin to its context, or nil without traces.
func (t *Tracing) Requests() func(*http.Request) context.Context {
	if t == nil {
		return nil
	}
	return func(r *http.Request) context.Context {
		return w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	}
}
