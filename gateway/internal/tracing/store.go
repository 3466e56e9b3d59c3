package tracing

import (
	"context"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// store traces the calls of a core.Store. The span of a call is a child of the spans of the
// operations that wait for it. The span of forwarding is a child of the message's origin.
type store struct {
	core.Store
	t *Tracing
}

func (t *Tracing) Store(inner core.Store) core.Store {
	if t == nil {
		return inner
	}
	return &store{inner, t}
}

func (s *store) Partition(r core.Ref, p core.Policy) core.Partition {
	inner := s.Store.Partition(r, p)
	inner.Operations = &partition{inner.Operations, s.t, inner}
	return inner
}

type partition struct {
	core.Operations
	t  *Tracing
	at core.Partition
}

func (s *store) WithTime(f func(now time.Time) time.Time) core.Store {
	return s.t.Store(s.Store.WithTime(f))
}

// call has the spans of one call of the store, which several traced operations may share.
type call struct {
	spans []trace.Span
	at    []int // index of the answer for each span
}

func (c *call) add(s trace.Span, at int) {
	c.spans = append(c.spans, s)
	c.at = append(c.at, at)
}

func (p *partition) waits(t *trail, name string, below trace.Span) trace.Span {
	attrs := t.with(attribute.String(keyCall, name), attribute.String(keyPartition, strconv.Itoa(int(p.at.Index))))
	return p.t.start(below.SpanContext(), "store "+name, trace.WithAttributes(attrs...))
}

// moves begins the span of a message that comes from another entity, and stores the span in the
// message. It returns nil for other messages, and for those without a trace.
func (p *partition) moves(m *core.Message) trace.Span {
	if m.Transit == nil || m.Transit.Key == "" {
		return nil
	}
	parent := origin(m)
	if !parent.IsSampled() {
		return nil
	}
	operation := "forward"
	if p.at.Sub != core.Main {
		operation = "dead-letter" // the message comes from a sub-queue
	}
	name := p.at.EntityName
	if topic, _, ok := core.SplitSubscription(name); ok {
		name = topic
	}
	to := destinationAt(p.at.NamespaceName, core.Address{Entity: name})
	attrs := to.with(attribute.String(keyOperation, operation), attribute.String(keyOperationType, "send"),
		attribute.String(keyPartition, strconv.Itoa(int(p.at.Index))), attribute.Int(keyHops, int(m.Transit.Hops)))
	span := p.t.start(parent, operation+" "+to.name, trace.WithAttributes(describe(attrs, m)...))
	note(m, span.SpanContext(), usualLimit)
	return span
}

// begin begins a span for storing m or, if t is nil, for forwarding it, and adds it to c for the
// answer with index at. The messages of a group share one span: last is the span of the previous
// message. begin returns the span that m carries.
func (p *partition) begin(c *call, t *trail, name string, m *core.Message, at int, last trace.Span) trace.Span {
	if t == nil {
		span := p.moves(m)
		if span != nil {
			c.add(span, at)
		}
		return span
	}
	below := t.messages[m]
	if below == nil {
		return nil
	}
	if below != last { // only once for a group
		c.add(p.waits(t, name, below), at)
	}
	note(m, below.SpanContext(), t.limit)
	return below
}

func (p *partition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	var c call
	t := trailOf(ctx)
	for i, g := range groups {
		var last trace.Span
		for _, m := range g {
			last = p.begin(&c, t, "append", m, i, last)
		}
	}
	answers := p.Operations.Append(ctx, groups)
	c.answered(len(answers), func(at int) error { return answers[at].Err })
	return answers
}

func (p *partition) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	var c call
	t := trailOf(ctx)
	for i, g := range groups {
		var last trace.Span
		for j := range g {
			last = p.begin(&c, t, "publish", g[j].Message, i, last)
			tell(&g[j], last)
		}
	}
	answers := p.Operations.Publish(ctx, version, groups)
	c.answered(len(answers), func(at int) error { return answers[at].Err })
	return answers
}

// answered ends the spans of a call, each with the error of its answer.
func (c *call) answered(answers int, errorOf func(at int) error) {
	for i, span := range c.spans {
		if c.at[i] < answers {
			conclude(span, errorOf(c.at[i]))
		}
	}
}

func (p *partition) Commit(ctx context.Context, w core.Work) ([]int64, error) {
	var c call
	t := trailOf(ctx)
	var last trace.Span
	for _, m := range w.Messages {
		last = p.begin(&c, t, "commit", m, 0, last)
	}
	for i := range w.Publications {
		last = p.begin(&c, t, "commit", w.Publications[i].Message, 0, last)
		tell(&w.Publications[i], last)
	}
	for _, m := range w.Transfers {
		last = p.begin(&c, t, "commit", m, 0, last)
	}
	for i := range w.Effects {
		follow(t, &w, &w.Effects[i])
	}
	p.ends(&c, t, "commit", w.Settlements)
	numbers, err := p.Operations.Commit(ctx, w)
	for _, span := range c.spans {
		conclude(span, err)
	}
	return numbers, err
}

// tell stores s in p's copies: the broker made them before p's message got the span s.
func tell(p *core.Publication, s trace.Span) {
	if s == nil {
		return
	}
	last := p.Message
	for i := range p.Copies {
		if m := p.Copies[i].Message; m != last { // copies may share a message
			note(m, s.SpanContext(), usualLimit)
			last = m
		}
	}
}

func follow(t *trail, w *core.Work, e *core.Effect) {
	if t == nil {
		return
	}
	var of *core.Message
	if len(w.Messages) > 0 {
		of = w.Messages[e.Of]
	} else {
		of = w.Publications[e.Of].Message
	}
	span := t.messages[of]
	if span == nil {
		return
	}
	for _, m := range slices.Concat(e.Transfers, e.DeadLetters) {
		note(m, span.SpanContext(), t.limit)
	}
}

func (p *partition) ends(c *call, t *trail, name string, settlements []core.Settlement) {
	if t == nil || len(t.tokens) == 0 {
		return
	}
	for i := range settlements {
		if below := t.tokens[settlements[i].Token]; below != nil {
			c.add(p.waits(t, name, below), i)
		}
	}
}

func (p *partition) Settle(ctx context.Context, settlements []core.Settlement) []error {
	var c call
	p.ends(&c, trailOf(ctx), "settle", settlements)
	errs := p.Operations.Settle(ctx, settlements)
	c.answered(len(errs), func(at int) error { return errs[at] })
	return errs
}
