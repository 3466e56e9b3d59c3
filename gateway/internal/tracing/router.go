package tracing

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

type router struct {
	core.Router
	t    *Tracing
	name string
}

// Router traces inner's calls as children of the messages' spans. name is the name of the plugin.
func (t *Tracing) Router(inner core.Router, name string) core.Router {
	if t == nil {
		return inner
	}
	return &router{inner, t, name}
}

func (r *router) Route(ctx context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	var c call
	t := trailOf(ctx)
	var asked map[trace.SpanID]bool // parents that have a span here: messages of a group share a parent, which needs only one
	for i, m := range ms {
		parent := r.below(t, m)
		if !parent.IsSampled() || asked[parent.SpanID()] {
			continue
		}
		if asked == nil {
			asked = make(map[trace.SpanID]bool)
		}
		asked[parent.SpanID()] = true
		c.add(r.t.start(parent, "plugin "+r.name, trace.WithAttributes(
			attribute.String(keySystem, system), attribute.String(keyPlugin, r.name), attribute.String(keyStage, at.Kind.String()), attribute.String(keyDestination, at.Entity),
			attribute.Int(keyBatch, len(ms)),
		)), i)
	}
	verdicts, err := r.Router.Route(ctx, at, ms)
	for i, s := range c.spans {
		outcome := err
		switch at := c.at[i]; {
		case err != nil:
		case at < len(verdicts):
			s.SetAttributes(attribute.String(keyVerdict, verdicts[at].Action.String()))
		default:
			outcome = fmt.Errorf("the plugin returned %d verdicts for %d messages, but must return one for each", len(verdicts), len(ms))
		}
		conclude(s, outcome)
	}
	return verdicts, err
}

func (r *router) below(t *trail, m *core.Message) trace.SpanContext {
	if t == nil {
		return origin(m)
	}
	if s := t.messages[m]; s != nil {
		return s.SpanContext()
	}
	return trace.SpanContext{}
}

// remote traces attempts to send to a remote. The span of an attempt is a child of the message's
// origin. The message carries the span, so that a gateway at the other end continues the trace.
type remote struct {
	core.Remote
	t    *Tracing
	name string
}

func (t *Tracing) Remote(inner core.Remote, name string) core.Remote {
	if t == nil {
		return inner
	}
	return &remote{inner, t, name}
}

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
		own := *m // do not change the caller's message
		note(&own, span.SpanContext(), usualLimit)
		sent[i] = &own
		c.add(span, i)
	}
	errs := r.Remote.Send(ctx, entity, sent)
	c.answered(len(errs), func(at int) error { return errs[at] })
	return errs
}
