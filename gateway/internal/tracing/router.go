package tracing

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// router traces the calls of a core.Router, below the spans of the messages.
type router struct {
	core.Router
	t    *Tracing
	name string
}

// Router returns inner, the plugin of a name, with its calls traced.
func (t *Tracing) Router(inner core.Router, name string) core.Router {
	if t == nil {
		return inner
	}
	return &router{inner, t, name}
}

// Route implements core.Router.
func (r *router) Route(ctx context.Context, at core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	var c call
	t := trailOf(ctx)
	var asked map[trace.SpanID]bool // for the messages of a group, which share a span
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
			outcome = fmt.Errorf("%d verdicts for %d messages", len(verdicts), len(ms))
		}
		conclude(s, outcome)
	}
	return verdicts, err
}

// below is the span that a message is on its way under.
func (r *router) below(t *trail, m *core.Message) trace.SpanContext {
	if t == nil {
		return origin(m)
	}
	if s := t.messages[m]; s != nil {
		return s.SpanContext()
	}
	return trace.SpanContext{}
}
