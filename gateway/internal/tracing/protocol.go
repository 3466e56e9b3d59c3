package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

type protocol struct {
	t    *Tracing
	name string
}

func (t *Tracing) Protocol(name string) []intercept.Interceptor {
	if t == nil {
		return nil
	}
	return []intercept.Interceptor{&protocol{t, name}}
}

func (p *protocol) Intercept(ctx context.Context, c *intercept.Call) {
	switch c.Op {
	case intercept.OpenSender:
		c.Link.Keep(p, new(at(c)))
		c.Next(ctx)
	case intercept.OpenReceiver, intercept.AcceptSession:
		asked, from, inner := context.WithoutCancel(ctx), at(c), c.Options.Deliver
		c.Options.Deliver = func(ds []core.Delivery) {
			p.arrive(asked, &from, ds)
			inner(ds)
		}
		c.Next(ctx)
	case intercept.ReceiveDeferred:
		c.Next(ctx)
		if len(c.Deliveries) > 0 {
			p.arrive(ctx, new(at(c)), c.Deliveries, attribute.Bool(keyDeferred, true))
		}
	case intercept.Send, intercept.Schedule:
		if c.InTransaction() {
			p.sendLater(ctx, c)
		} else {
			p.send(ctx, c)
		}
	case intercept.Settle:
		if c.InTransaction() {
			p.settleLater(ctx, c)
		} else {
			p.settle(ctx, c)
		}
	case intercept.Commit:
		p.commit(ctx, c)
	default:
		c.Next(ctx)
	}
}

func at(c *intercept.Call) destination { return destinationAt(c.ID.Namespace(), c.Address) }

// arrive creates the spans of deliveries. It keeps them while the messages are locked.
func (p *protocol) arrive(ctx context.Context, from *destination, ds []core.Delivery, more ...attribute.KeyValue) {
	for i := range ds {
		d := &ds[i]
		parent := origin(d.Message)
		if !parent.IsSampled() {
			continue
		}
		attrs := from.with(attribute.String(keyOperation, "deliver"), attribute.String(keyOperationType, "receive"), attribute.String(keyProtocol, p.name),
			attribute.Int64(keySequence, d.SequenceNumber), attribute.Int64(keyEnqueued, d.EnqueuedTime.Unix()),
			attribute.Int64(keyQueueTime, max(time.Since(d.EnqueuedTime).Milliseconds(), 0)), attribute.Int64(keyDeliveries, int64(d.DeliveryCount)))
		attrs = append(describe(attrs, d.Message), more...)
		s := p.t.start(parent, "deliver "+from.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...), requested(ctx))
		if !d.LockToken.IsZero() {
			p.t.held.Add(d.LockToken, s.SpanContext())
		}
		s.End()
	}
}

func requested(ctx context.Context) trace.SpanStartOption {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return trace.WithLinks(trace.Link{SpanContext: c})
	}
	return trace.WithLinks()
}

func (p *protocol) send(ctx context.Context, c *intercept.Call) {
	to := c.Link.Kept(p).(*destination)
	var t *trail
	var spans []trace.Span
	for i, g := range c.Groups {
		span := p.t.depart(ctx, to, p.name, g)
		if span == nil {
			continue
		}
		if t == nil {
			t, spans = &trail{destination: *to, limit: c.Link.MaxMessageSize()}, make([]trace.Span, len(c.Groups))
		}
		spans[i] = span
		t.follow(g, span)
	}
	if t == nil {
		c.Next(ctx)
		return
	}
	c.Next(t.in(ctx))
	for i := range c.Appended {
		if i < len(spans) && spans[i] != nil {
			departed(spans[i], &c.Appended[i])
		}
	}
}

func (p *protocol) settle(ctx context.Context, c *intercept.Call) {
	t, spans := p.leave(ctx, c)
	if t == nil {
		c.Next(ctx)
		return
	}
	c.Next(t.in(ctx))
	for i, s := range spans {
		if s == nil || i >= len(c.Errs) {
			continue
		}
		if !core.CodeOf(c.Errs[i]).Retriable() {
			p.t.held.Remove(c.Settlements[i].Token)
		}
		conclude(s, c.Errs[i])
	}
}

// leave begins a span for each settlement, as a child of the delivery's span. It returns nil if no
// delivery has a span.
func (p *protocol) leave(ctx context.Context, c *intercept.Call, more ...attribute.KeyValue) (t *trail, spans []trace.Span) {
	for i := range c.Settlements {
		token, outcome := c.Settlements[i].Token, c.Settlements[i].Outcome
		parent, ok := p.t.held.Peek(token)
		if !ok {
			continue
		}
		if t == nil {
			t = &trail{destination: at(c), tokens: make(map[core.LockToken]trace.Span)}
			spans = make([]trace.Span, len(c.Settlements))
		}
		attrs := t.with(attribute.String(keyOperation, outcome.String()), attribute.String(keyOperationType, "settle"), attribute.String(keyProtocol, p.name),
			attribute.String(keyOutcome, disposition(outcome)), attribute.Int64(keySequence, token.SequenceNumber()))
		attrs = append(attrs, more...)
		spans[i] = p.t.start(parent, outcome.String()+" "+t.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...), requested(ctx))
		t.tokens[token] = spans[i]
	}
	return t, spans
}

// disposition returns the name that OpenTelemetry's conventions give an outcome.
func disposition(o core.Outcome) string {
	if o == core.DeadLetterOutcome {
		return "dead_letter"
	}
	return o.String()
}

// transaction has the spans of a transaction's operations. Each begins with its operation and ends
// with the commit. A rollback discards them.
type transaction struct {
	trail
	spans   []trace.Span
	settled []core.LockToken
}

var inTransaction = attribute.Bool(keyTransaction, true)

func (p *protocol) transaction(c *intercept.Call) *transaction {
	x, ok := c.Link.Kept(p).(*transaction)
	if !ok {
		x = &transaction{trail: trail{limit: usualLimit, tokens: make(map[core.LockToken]trace.Span)}}
		c.Link.Keep(p, x)
	}
	return x
}

func (p *protocol) sendLater(ctx context.Context, c *intercept.Call) {
	to := at(c)
	to.attrs = append(to.attrs, inTransaction)
	span := p.t.depart(ctx, &to, p.name, c.Groups[0])
	c.Next(ctx)
	switch {
	case span == nil:
	case c.Err != nil:
		conclude(span, c.Err)
	default:
		x := p.transaction(c)
		x.follow(c.Groups[0], span)
		x.spans = append(x.spans, span)
	}
}

func (p *protocol) settleLater(ctx context.Context, c *intercept.Call) {
	_, spans := p.leave(ctx, c, inTransaction)
	c.Next(ctx)
	for i, s := range spans {
		switch {
		case s == nil:
		case c.Err != nil:
			conclude(s, c.Err)
		default:
			x, token := p.transaction(c), c.Settlements[i].Token
			x.spans, x.settled, x.tokens[token] = append(x.spans, s), append(x.settled, token), s
		}
	}
}

func (p *protocol) commit(ctx context.Context, c *intercept.Call) {
	x, ok := c.Link.Kept(p).(*transaction)
	if !ok {
		c.Next(ctx)
		return
	}
	c.Next(x.in(ctx))
	for _, s := range x.spans {
		conclude(s, c.Err)
	}
	if c.Err == nil {
		for _, token := range x.settled {
			p.t.held.Remove(token)
		}
	}
}

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
