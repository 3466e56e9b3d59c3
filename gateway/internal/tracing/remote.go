package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// remote traces what is forwarded to a core.Remote, each try below the span that
// the message comes of. The message takes the try's span along, so that the spans
// of a gateway there are below it.
type remote struct {
	core.Remote
	t    *Tracing
	name string
}

// Remote returns inner, the remote of a name, with what it is sent traced.
func (t *Tracing) Remote(inner core.Remote, name string) core.Remote {
	if t == nil {
		return inner
	}
	return &remote{inner, t, name}
}

// Send implements core.Remote.
func (r *remote) Send(ctx context.Context, entity string, ms []*core.Message) []error {
	var c call
	sent := ms
	for i, m := range ms {
		parent := origin(m)
		if !parent.IsSampled() {
			continue
		}
		if len(c.spans) == 0 {
			sent = append([]*core.Message(nil), ms...)
		}
		attrs := describe([]attribute.KeyValue{
			attribute.String(keySystem, system), attribute.String(keyOperation, "forward"), attribute.String(keyOperationType, "send"),
			attribute.String(keyDestination, entity), attribute.String(keyRemote, r.name),
		}, m)
		span := r.t.start(parent, "forward "+r.name+":"+entity, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
		own := *m // messages are only read
		note(&own, span.SpanContext(), usualLimit)
		sent[i] = &own
		c.add(span, i)
	}
	errs := r.Remote.Send(ctx, entity, sent)
	for i, span := range c.spans {
		if c.at[i] < len(errs) {
			conclude(span, errs[c.at[i]])
		}
	}
	return errs
}
