package payload

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Options say for which entities payloads are read and transcoded. The zero value is for none.
type Options struct {
	// Chain is for receivers that say what they accept, of entities without a chain of their own;
	// nil: none.
	Chain *Chain
	// Entities are settings of queues and subscriptions, by name.
	Entities map[string]Entity
	// Now is the broker's clock; nil: time.Now.
	Now func() time.Time
	// Logger receives what operators should know; nil means slog.Default().
	Logger *slog.Logger
}

// Entity says how messages are received from one entity.
type Entity struct {
	// Chain is the entity's own: payloads that it cannot decode are dead-lettered. nil: that of
	// Options, and nothing is dead-lettered.
	Chain *Chain
	// Deliver is what receivers accept that do not say it themselves, or accept all types alike; in
	// the form of Accept.
	Deliver string
}

// Broker is a core.Broker whose receivers get what they accept. Its calls go to the Broker behind
// it, with the given identity.
type Broker struct {
	core.Broker
	chain    *Chain
	entities map[string]plan // by folded name
	now      func() time.Time
	log      *slog.Logger
	workers  sync.WaitGroup
}

// plan says what is done with the payloads of one receiver.
type plan struct {
	chain   *Chain // nil: nothing
	accept  Accept
	checked bool // payloads that cannot be decoded are dead-lettered
}

// New puts a Broker in front of another.
func New(b core.Broker, o Options) *Broker {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	front := &Broker{Broker: b, chain: o.Chain, entities: make(map[string]plan, len(o.Entities)), now: o.Now, log: o.Logger}
	for name, e := range o.Entities {
		p := plan{chain: e.Chain, accept: ParseAccept(e.Deliver), checked: e.Chain != nil}
		if p.chain == nil {
			p.chain = o.Chain
		}
		front.entities[core.FoldName(name)] = p
	}
	return front
}

// Wait waits for the work of closed receivers.
func (b *Broker) Wait() { b.workers.Wait() }

// plan returns the plan for a receiver; ok is false if there is nothing to do.
func (b *Broker) plan(address, accept string) (p plan, ok bool) {
	if b.chain == nil && len(b.entities) == 0 {
		return p, false
	}
	a, err := core.ParseAddress(address)
	if err != nil {
		return p, false
	}
	p, ok = b.entities[core.FoldName(a.Entity)]
	if !ok {
		p.chain = b.chain
	}
	if asked := ParseAccept(accept); !asked.IsAny() {
		p.accept = asked
	}
	p.checked = p.checked && a.Sub == core.Main && !a.Management
	return p, p.chain != nil && (p.checked || !p.accept.IsAny())
}

// OpenReceiver implements core.Broker.
func (b *Broker) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (core.Receiver, error) {
	p, ok := b.plan(address, o.Accept)
	if !ok {
		return b.Broker.OpenReceiver(ctx, id, address, o)
	}
	r := newReceiver(b, p, id, address, &o)
	inner, err := b.Broker.OpenReceiver(ctx, id, address, o)
	if err != nil {
		return nil, err
	}
	r.inner = inner
	return r, nil
}

// AcceptSession implements core.Broker.
func (b *Broker) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (core.Session, error) {
	p, ok := b.plan(address, o.Accept)
	if !ok {
		return b.Broker.AcceptSession(ctx, id, address, o)
	}
	r := newReceiver(b, p, id, address, &o.ReceiverOptions)
	r.inSession = o.Sharing == core.Exclusive && o.TakeOver.IsZero() // otherwise the session may go on without it
	inner, err := b.Broker.AcceptSession(ctx, id, address, o)
	if err != nil {
		return nil, err
	}
	r.inner = inner
	return &session{Session: inner, receiver: r}, nil
}

// Peek implements core.Broker.
func (b *Broker) Peek(ctx context.Context, id core.Identity, address string, from int64, n int) ([]core.Delivery, error) {
	ds, err := b.Broker.Peek(ctx, id, address, from, n)
	p, ok := b.plan(address, "")
	if ok && err == nil {
		p.rewrite(ctx, ds)
	}
	return ds, err
}

// PeekState implements core.Broker.
func (b *Broker) PeekState(ctx context.Context, id core.Identity, address string, state core.State, from int64, n int) ([]core.Delivery, error) {
	ds, err := b.Broker.PeekState(ctx, id, address, state, from, n)
	p, ok := b.plan(address, "")
	if ok && err == nil {
		p.rewrite(ctx, ds)
	}
	return ds, err
}

// ReceiveDeferred implements core.Broker.
func (b *Broker) ReceiveDeferred(ctx context.Context, id core.Identity, address string, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	ds, err := b.Broker.ReceiveDeferred(ctx, id, address, numbers, mode)
	p, ok := b.plan(address, "")
	if ok && err == nil {
		p.rewrite(ctx, ds)
	}
	return ds, err
}

// rewrite transcodes payloads where that is possible.
func (p *plan) rewrite(ctx context.Context, ds []core.Delivery) {
	for i := range ds {
		ds[i].Message, _ = p.chain.convert(ctx, ds[i].Message, p.accept, false) // on an error it stays as it is
	}
}

// session is a session whose messages go through a receiver.
type session struct {
	core.Session
	receiver *receiver
}

func (s *session) AddCredit(n int, bytes int64) { s.receiver.AddCredit(n, bytes) }
func (s *session) Drain(drained func(int))      { s.receiver.Drain(drained) }
func (s *session) Close()                       { s.receiver.Close() }
func (s *session) plan() (p *plan, works bool) {
	return &s.receiver.plan, !s.receiver.plan.accept.IsAny()
}

// ReceiveDeferred implements core.Session.
func (s *session) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	ds, err := s.Session.ReceiveDeferred(ctx, numbers, mode)
	if p, ok := s.plan(); ok && err == nil {
		p.rewrite(ctx, ds)
	}
	return ds, err
}

// Peek implements core.Session.
func (s *session) Peek(ctx context.Context, from int64, n int) ([]core.Delivery, error) {
	ds, err := s.Session.Peek(ctx, from, n)
	if p, ok := s.plan(); ok && err == nil {
		p.rewrite(ctx, ds)
	}
	return ds, err
}

// settleTimeout bounds the settling of messages that no receiver gets.
const settleTimeout = 10 * time.Second
