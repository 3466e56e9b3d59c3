package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// trail has the spans that are parents of the store's spans. The context of a call carries it.
type trail struct {
	destination
	limit    int64 // maximum size of a message in bytes
	messages map[*core.Message]trace.Span
	tokens   map[core.LockToken]trace.Span
}

type trailKey struct{}

func (t *trail) in(ctx context.Context) context.Context { return context.WithValue(ctx, trailKey{}, t) }

func trailOf(ctx context.Context) *trail {
	t, _ := ctx.Value(trailKey{}).(*trail)
	return t
}

func (t *trail) follow(group []*core.Message, s trace.Span) {
	if t.messages == nil {
		t.messages = make(map[*core.Message]trace.Span, len(group))
	}
	for _, m := range group {
		t.messages[m] = s
	}
}

// depart begins the span for a group of sent messages, or returns nil if the group is not traced.
// The span of one message is a child of its origin. The span of a batch belongs to the trace of its
// messages or, if there are several, has links to them. If no message has an origin, the parent is
// the request's span. Without that, the span is a root, if the sampler selects it.
func (t *Tracing) depart(ctx context.Context, p *destination, protocol string, group []*core.Message) trace.Span {
	parent, links, ok := t.departure(ctx, group)
	if !ok || len(group) == 0 {
		return nil
	}
	attrs := p.with(attribute.String(keyOperation, "send"), attribute.String(keyOperationType, "send"), attribute.String(keyProtocol, protocol))
	if len(group) == 1 {
		attrs = describe(attrs, group[0])
	} else {
		attrs = append(attrs, attribute.Int(keyBatch, len(group)))
	}
	return t.start(parent, "send "+p.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...), trace.WithLinks(links...))
}

func (t *Tracing) departure(ctx context.Context, group []*core.Message) (parent trace.SpanContext, links []trace.Link, sampled bool) {
	several := false
	for _, m := range group {
		c := origin(m)
		if !c.IsValid() {
			continue
		}
		sampled = sampled || c.IsSampled()
		switch {
		case !parent.IsValid():
			parent = c
		case c.TraceID() != parent.TraceID():
			several = true
		case c.SpanID() == parent.SpanID():
			continue // one link to a span is enough
		}
		links = append(links, trace.Link{SpanContext: c})
	}
	switch {
	case !parent.IsValid():
		if parent = trace.SpanContextFromContext(ctx); parent.IsValid() {
			return parent, nil, parent.IsSampled()
		}
		return parent, nil, t.chosen()
	case several:
		return trace.SpanContext{}, links, sampled
	}
	return parent, links[1:], sampled
}

func departed(s trace.Span, a *core.Appended) {
	if len(a.Numbers) == 1 && a.Err == nil {
		if n := a.Numbers[0]; n != 0 {
			s.SetAttributes(attribute.Int64(keySequence, n))
		} else {
			s.SetAttributes(attribute.Bool(keyDuplicate, true))
		}
	}
	conclude(s, a.Err)
}
