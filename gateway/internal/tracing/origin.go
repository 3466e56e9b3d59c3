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

// The names under which a message brings along where it belongs to. The
// properties are the application's, or its SDK's, and are never changed. The
// annotation is the gateway's own, for what becomes of the message later.
const (
	propertyTraceParent  = "traceparent"
	propertyDiagnosticID = "Diagnostic-Id" // of the SDKs; in the same form, or an older one that is ignored
	propertyTraceState   = "tracestate"
	annotation           = "x-opt-traceparent"
)

// annotationSize is the size of the annotation at most, and what opens its map.
const annotationSize = 96

// origin is the span that a message comes of: the one that the gateway noted, if
// it is of the trace that the application names or there is none, else the
// application's. It is not valid if there is nothing.
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

// text decodes a string or symbol, "" for anything else.
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

// w3c reads and writes what messages and requests bring along: W3C Trace Context.
var w3c propagation.TraceContext

// parse reads a traceparent with a tracestate, which does not count if it is malformed. The result is not valid if the
// traceparent is not.
func parse(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{propertyTraceParent: parent, propertyTraceState: state}
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier))
}

// write is the traceparent of a span.
func write(c trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier)
	return carrier[propertyTraceParent]
}

// usualLimit is how large a message may be in most entities, in bytes.
const usualLimit = 256 << 10

// note writes a span to a message for its later spans, unless the message
// is of another trace. It is for messages that were admitted; one that is so near
// a limit, in bytes, that it would not be admitted once more is left as it is.
func note(m *core.Message, c trace.SpanContext, limit int64) {
	own := origin(m)
	if own.IsValid() && own.TraceID() != c.TraceID() {
		return
	}
	if m.HeaderSize()+annotationSize > core.MaxHeaderBytes || int64(m.Size()+annotationSize) > limit {
		return
	}
	one, err := core.NewProperties(core.Property{Key: annotation, Value: write(c)})
	if err == nil { // it always is
		m.Annotations = m.Annotations.Merge(one)
	}
}

// Requests returns what puts the span that an HTTP request belongs to into its
// context; nil if traces are off.
func (t *Tracing) Requests() func(*http.Request) context.Context {
	if t == nil {
		return nil
	}
	return func(r *http.Request) context.Context {
		return w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	}
}
