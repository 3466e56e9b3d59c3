package tracing

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"

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
// application's. It is not valid where there is nothing.
func origin(m *core.Message) trace.SpanContext {
	if m.Properties.IsEmpty() && m.Annotations.IsEmpty() {
		return trace.SpanContext{}
	}
	var parent, diagnostic, noted trace.SpanContext
	var state string
	for k, raw := range value.MapEntries(m.Properties.Encoded()) {
		switch {
		case isNamed(k, propertyTraceParent):
			parent = parse(text(raw))
		case isNamed(k, propertyDiagnosticID):
			diagnostic = parse(text(raw))
		case isNamed(k, propertyTraceState):
			state = text(raw)
		}
	}
	for k, raw := range value.MapEntries(m.Annotations.Encoded()) {
		if string(k) == annotation {
			noted = parse(text(raw))
		}
	}
	if !parent.IsValid() {
		parent = diagnostic
	}
	if noted.IsValid() && (!parent.IsValid() || parent.TraceID() == noted.TraceID()) {
		parent = noted
	}
	return withState(parent, state)
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

// withState adds a trace state, unless it is malformed.
func withState(c trace.SpanContext, state string) trace.SpanContext {
	if state == "" || !c.IsValid() {
		return c
	}
	parsed, err := trace.ParseTraceState(state)
	if err != nil {
		return c
	}
	return c.WithTraceState(parsed)
}

// parse reads a traceparent (W3C Trace Context §3.2), of a later version as far
// as it is known. The result is not valid if the text is not.
func parse(s string) trace.SpanContext {
	const known = 55 // characters
	if len(s) < known || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return trace.SpanContext{}
	}
	version, ok := lowerHex(s[:2])
	flags, flagsOK := lowerHex(s[53:known])
	switch {
	case !ok || !flagsOK || version == 0xff,
		version == 0 && (len(s) > known || flags > 3),
		len(s) > known && s[known] != '-':
		return trace.SpanContext{}
	}
	traceID, err := trace.TraceIDFromHex(s[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	spanID, err := trace.SpanIDFromHex(s[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags) & (trace.FlagsSampled | trace.FlagsRandom), Remote: true,
	})
}

// lowerHex reads two digits.
func lowerHex(s string) (byte, bool) {
	var b [1]byte
	_, err := hex.Decode(b[:], []byte(s))
	return b[0], err == nil && strings.ToLower(s) == s
}

// write is the reverse of parse.
func write(c trace.SpanContext) string {
	id, span := c.TraceID(), c.SpanID()
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{byte(c.TraceFlags())}))
}

// usualLimit is how large a message may be in most entities, in bytes.
const usualLimit = 256 << 10

// note writes a span to a message for what becomes of it later, unless the message
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
		c := parse(r.Header.Get(propertyTraceParent))
		if !c.IsValid() {
			return r.Context()
		}
		return trace.ContextWithSpanContext(r.Context(), withState(c, r.Header.Get(propertyTraceState)))
	}
}
