package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crosstown-mq/crosstown/core"
)

// front traces what one bridge asks the broker behind it for.
type front struct {
	core.Broker
	t        *Tracing
	protocol string
}

// Broker returns inner with what is sent, delivered and settled traced, for a
// bridge of the named protocol.
func (t *Tracing) Broker(inner core.Broker, protocol string) core.Broker {
	if t == nil {
		return inner
	}
	return &front{inner, t, protocol}
}

func (b *front) OpenSender(ctx context.Context, id core.Identity, address string, closed func(error)) (core.Sender, error) {
	s, err := b.Broker.OpenSender(ctx, id, address, closed)
	if err != nil {
		return nil, err
	}
	return &sender{s, b, destinationOf(id.Namespace(), address)}, nil
}

func (b *front) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (core.Receiver, error) {
	b.watch(ctx, &o, destinationOf(id.Namespace(), address))
	return b.Broker.OpenReceiver(ctx, id, address, o)
}

func (b *front) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (core.Session, error) {
	b.watch(ctx, &o.ReceiverOptions, destinationOf(id.Namespace(), address))
	s, err := b.Broker.AcceptSession(ctx, id, address, o)
	if err != nil {
		return nil, err
	}
	return &session{s, b, destinationOf(id.Namespace(), address)}, nil
}

func (b *front) ReceiveDeferred(ctx context.Context, id core.Identity, address string, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	ds, err := b.Broker.ReceiveDeferred(ctx, id, address, numbers, mode)
	if len(ds) > 0 {
		p := destinationOf(id.Namespace(), address)
		b.arrive(ctx, &p, ds, attribute.Bool(keyDeferred, true))
	}
	return ds, err
}

// watch traces what comes to a receiver.
func (b *front) watch(ctx context.Context, o *core.ReceiverOptions, p destination) {
	asked, inner := context.WithoutCancel(ctx), o.Deliver
	o.Deliver = func(ds []core.Delivery) {
		b.arrive(asked, &p, ds)
		inner(ds)
	}
}

// arrive makes the spans of deliveries, and remembers them for as long as the
// messages are locked.
func (b *front) arrive(ctx context.Context, p *destination, ds []core.Delivery, more ...attribute.KeyValue) {
	for i := range ds {
		d := &ds[i]
		parent := origin(d.Message)
		if !parent.IsSampled() {
			continue
		}
		attrs := make([]attribute.KeyValue, 0, 18)
		attrs = append(attrs, p.attrs...)
		attrs = append(attrs, attribute.String(keyOperation, "deliver"), attribute.String(keyOperationType, "receive"), attribute.String(keyProtocol, b.protocol),
			attribute.Int64(keySequence, d.SequenceNumber), attribute.Int64(keyEnqueued, d.EnqueuedTime.Unix()),
			attribute.Int64(keyQueueTime, max(time.Since(d.EnqueuedTime).Milliseconds(), 0)), attribute.Int64(keyDeliveries, int64(d.DeliveryCount)))
		attrs = append(describe(attrs, d.Message), more...)
		s := b.t.start(parent, "deliver "+p.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...), requested(ctx))
		if !d.LockToken.IsZero() {
			b.t.held.put(d.LockToken, s.SpanContext())
		}
		s.End()
	}
}

// requested links a span to that of the request in ctx, if there is one.
func requested(ctx context.Context) trace.SpanStartOption {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return trace.WithLinks(trace.Link{SpanContext: c})
	}
	return trace.WithLinks()
}

// Settle implements core.Broker.
func (b *front) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) []error {
	t, spans := b.leave(ctx, id, address, settlements)
	if t == nil {
		return b.Broker.Settle(ctx, id, address, settlements)
	}
	errs := b.Broker.Settle(t.in(ctx), id, address, settlements)
	for i, s := range spans {
		if s == nil || i >= len(errs) {
			continue
		}
		if !core.CodeOf(errs[i]).Retriable() {
			b.t.held.forget(settlements[i].Token)
		}
		conclude(s, errs[i])
	}
	return errs
}

// leave begins the spans of settlements whose deliveries are known, below those;
// nil if there are none.
func (b *front) leave(ctx context.Context, id core.Identity, address string, settlements []core.Settlement, more ...attribute.KeyValue) (t *trail, spans []trace.Span) {
	for i := range settlements {
		parent := b.t.held.find(settlements[i].Token)
		if !parent.IsValid() {
			continue
		}
		if t == nil {
			t = &trail{destination: destinationOf(id.Namespace(), address), tokens: make(map[core.LockToken]trace.Span)}
			spans = make([]trace.Span, len(settlements))
		}
		outcome := settlements[i].Outcome
		attrs := make([]attribute.KeyValue, 0, 12)
		attrs = append(attrs, t.attrs...)
		attrs = append(attrs, attribute.String(keyOperation, outcome.String()), attribute.String(keyOperationType, "settle"), attribute.String(keyProtocol, b.protocol),
			attribute.String(keyOutcome, disposition(outcome)), attribute.Int64(keySequence, settlements[i].Token.SequenceNumber()))
		attrs = append(attrs, more...)
		spans[i] = b.t.start(parent, outcome.String()+" "+t.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...), requested(ctx))
		t.tokens[settlements[i].Token] = spans[i]
	}
	return t, spans
}

// disposition is an outcome in the words of OpenTelemetry's conventions.
func disposition(o core.Outcome) string {
	if o == core.DeadLetterOutcome {
		return "dead_letter"
	}
	return o.String()
}

// sender traces what goes through a core.Sender.
type sender struct {
	core.Sender
	b *front
	destination
}

func (s *sender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	var t *trail
	var spans []trace.Span
	for i, g := range groups {
		span := s.b.t.depart(ctx, &s.destination, s.b.protocol, g)
		if span == nil {
			continue
		}
		if t == nil {
			t, spans = &trail{destination: s.destination, limit: s.MaxMessageSize()}, make([]trace.Span, len(groups))
		}
		spans[i] = span
		t.follow(g, span)
	}
	if t == nil {
		return s.Sender.Send(ctx, groups)
	}
	answers := s.Sender.Send(t.in(ctx), groups)
	for i := range answers {
		if i < len(spans) && spans[i] != nil {
			departed(spans[i], &answers[i])
		}
	}
	return answers
}

// session traces what is received through a core.Session by its number.
type session struct {
	core.Session
	b *front
	destination
}

func (s *session) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	ds, err := s.Session.ReceiveDeferred(ctx, numbers, mode)
	s.b.arrive(ctx, &s.destination, ds, attribute.Bool(keyDeferred, true))
	return ds, err
}

// Begin implements core.Transactions.
func (b *front) Begin() core.Transaction {
	return &transaction{Transaction: b.Broker.Begin(), b: b, t: trail{limit: usualLimit}}
}

// transaction traces what is sent and settled in a core.Transaction: the spans
// begin when it is told of, and end with the commit. One that is rolled back has none.
type transaction struct {
	core.Transaction
	b      *front
	t      trail
	spans  []trace.Span
	tokens []core.LockToken
}

var inTransaction = attribute.Bool(keyTransaction, true)

func (x *transaction) Send(ctx context.Context, id core.Identity, address, via string, group []*core.Message) error {
	return x.depart(ctx, id, address, group, func() error { return x.Transaction.Send(ctx, id, address, via, group) })
}

func (x *transaction) Schedule(ctx context.Context, id core.Identity, address string, group []*core.Message) (numbers []int64, err error) {
	err = x.depart(ctx, id, address, group, func() error {
		numbers, err = x.Transaction.Schedule(ctx, id, address, group)
		return err
	})
	return numbers, err
}

// depart traces messages that the client sends or schedules.
func (x *transaction) depart(ctx context.Context, id core.Identity, address string, group []*core.Message, send func() error) error {
	p := destinationOf(id.Namespace(), address)
	p.attrs = append(p.attrs, inTransaction)
	span := x.b.t.depart(ctx, &p, x.b.protocol, group)
	err := send()
	switch {
	case span == nil:
	case err != nil:
		conclude(span, err)
	default:
		x.t.follow(group, span)
		x.spans = append(x.spans, span)
	}
	return err
}

func (x *transaction) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) error {
	t, spans := x.b.leave(ctx, id, address, settlements, inTransaction)
	err := x.Transaction.Settle(ctx, id, address, settlements)
	if t == nil {
		return err
	}
	if x.t.tokens == nil {
		x.t.tokens = make(map[core.LockToken]trace.Span)
	}
	for i, s := range spans {
		switch {
		case s == nil:
		case err != nil:
			conclude(s, err)
		default:
			x.spans = append(x.spans, s)
			x.tokens = append(x.tokens, settlements[i].Token)
			x.t.tokens[settlements[i].Token] = s
		}
	}
	return err
}

func (x *transaction) Commit(ctx context.Context) error {
	if len(x.spans) == 0 {
		return x.Transaction.Commit(ctx)
	}
	err := x.Transaction.Commit(x.t.in(ctx))
	for _, s := range x.spans {
		conclude(s, err)
	}
	if err == nil {
		for _, token := range x.tokens {
			x.b.t.held.forget(token)
		}
	}
	return err
}
