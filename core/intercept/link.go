package intercept

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type Link struct {
	// Closed is the callback that was passed to the broker when the link was opened; it may be nil.
	// The Link of a transaction has none.
	Closed func(error)

	front       *Front
	space       *Space
	id          core.Identity
	address     core.Address
	transaction bool
	kept        map[any]any

	sender   core.Sender
	receiver core.Receiver
	stages   []Stage

	mu         sync.Mutex // makes Refund and Drain run one after the other
	draining   int
	unreported int // credit to add to the result of the next Drain
}

// Stage is the part of an interceptor that may hold messages back on their way to a receiver.
type Stage interface {
	// After it has passed on all earlier messages, Drained calls the parameter then.
	Drained(then func())
	// Close stops the stage, after the broker's receiver was closed. When it has returned, the
	// stage passes no message on. It may be called more than once.
	Close()
}

// Keep stores a value in the link, for Kept. An interceptor may call Keep and Add in the call that
// opens the link, and in each call of a transaction.
func (l *Link) Keep(key, value any) {
	if l.kept == nil {
		l.kept = map[any]any{}
	}
	l.kept[key] = value
}

func (l *Link) Kept(key any) any { return l.kept[key] }

func (l *Link) Add(s Stage) { l.stages = append(l.stages, s) }

func (l *Link) MaxMessageSize() int64 { return l.sender.MaxMessageSize() }

const settleTimeout = 10 * time.Second

// Settle settles deliveries of the receiver, all like s, without calling interceptors. It gives up
// after settleTimeout, and not when ctx ends.
func (l *Link) Settle(ctx context.Context, ds []core.Delivery, s core.Settlement) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	settlements := slices.Repeat([]core.Settlement{s}, len(ds))
	for i := range ds {
		settlements[i].Token = ds[i].LockToken
	}
	return l.space.Broker.Settle(ctx, l.id, l.address, settlements)
}

// Refund gives credit back to a receiver: n messages that the bridge did not get, and bytes that
// were charged in excess. During a Drain, the messages count as unused credit instead.
func (l *Link) Refund(n, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case n == 0 && bytes == 0:
	case l.draining > 0:
		l.unreported += n
	default:
		l.receiver.AddCredit(n, int64(bytes))
	}
}

// Close closes the broker's sender or receiver, and then the stages, from back to front.
func (l *Link) Close() {
	if l.sender != nil {
		l.sender.Close()
	}
	if l.receiver != nil {
		l.receiver.Close()
	}
	for i := len(l.stages) - 1; i >= 0; i-- {
		l.stages[i].Close()
	}
}

func (l *Link) drain(drained func(unspent int)) {
	if len(l.stages) == 0 {
		l.receiver.Drain(drained)
		return
	}
	l.mu.Lock()
	l.draining++
	l.mu.Unlock()
	l.receiver.Drain(func(unspent int) {
		then := func() {
			l.mu.Lock()
			l.draining--
			unspent += l.unreported
			l.unreported = 0
			l.mu.Unlock()
			drained(unspent)
		}
		for _, s := range l.stages {
			next := then
			then = func() { s.Drained(next) }
		}
		then()
	})
}

// If an interceptor refuses the call after the broker has opened the link, open closes it.
func (f *Front) open(ctx context.Context, op Op, id core.Identity, address core.Address, o *core.SessionOptions, do func(context.Context, *Call)) (*Link, error) {
	c := newCall(op, id, address, do)
	defer c.free()
	l := &Link{front: f, id: id, address: address}
	c.Link, c.Options = l, o
	f.run(ctx, c)
	if c.Err != nil {
		l.Close()
		return nil, c.Err
	}
	l.space, l.Closed = c.space, o.Closed
	return l, nil
}

func (f *Front) OpenSender(ctx context.Context, id core.Identity, address core.Address, closed func(error)) (core.Sender, error) {
	o := core.SessionOptions{ReceiverOptions: core.ReceiverOptions{Closed: closed}}
	l, err := f.open(ctx, OpenSender, id, address, &o, func(ctx context.Context, c *Call) {
		c.Link.sender, c.Err = c.space.Broker.OpenSender(ctx, c.ID, c.Address, c.Options.Closed)
	})
	if err != nil {
		return nil, err
	}
	return &sender{l.sender, l}, nil
}

type sender struct {
	core.Sender
	link *Link
}

func (s *sender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	l := s.link
	c := newCall(Send, l.id, l.address, send)
	defer c.free()
	c.Link, c.Groups = l, groups
	c.run(ctx, l.front, l.space, nil)
	return c.Appended
}

func send(ctx context.Context, c *Call) { c.Appended = c.Link.sender.Send(ctx, c.Groups) }

func (f *Front) OpenReceiver(ctx context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	l, err := f.open(ctx, OpenReceiver, id, address, &core.SessionOptions{ReceiverOptions: o}, func(ctx context.Context, c *Call) {
		c.Link.receiver, c.Err = c.space.Broker.OpenReceiver(ctx, c.ID, c.Address, c.Options.ReceiverOptions)
	})
	if err != nil {
		return nil, err
	}
	if len(l.stages) == 0 {
		return l.receiver, nil
	}
	return &receiver{l.receiver, l}, nil
}

type receiver struct {
	core.Receiver
	link *Link
}

func (r *receiver) Drain(drained func(unspent int)) { r.link.drain(drained) }

func (r *receiver) Close() { r.link.Close() }

func (f *Front) AcceptSession(ctx context.Context, id core.Identity, address core.Address, o core.SessionOptions) (core.Session, error) {
	l, err := f.open(ctx, AcceptSession, id, address, &o, func(ctx context.Context, c *Call) {
		s, err := c.space.Broker.AcceptSession(ctx, c.ID, c.Address, *c.Options)
		if c.Err = err; err == nil {
			c.Link.receiver = s
		}
	})
	if err != nil {
		return nil, err
	}
	return &session{l.receiver.(core.Session), l}, nil
}

type session struct {
	core.Session
	link *Link
}

func (s *session) Drain(drained func(unspent int)) { s.link.drain(drained) }

func (s *session) Close() { s.link.Close() }

func (s *session) ask(ctx context.Context, op Op, do func(context.Context, *Call)) ([]core.Delivery, error) {
	c := newCall(op, s.link.id, s.link.address, do)
	defer c.free()
	c.Link = s.link
	c.run(ctx, s.link.front, s.link.space, nil)
	return c.Deliveries, c.Err
}

func (s *session) Renew(ctx context.Context) (until time.Time, err error) {
	_, err = s.ask(ctx, RenewSession, func(ctx context.Context, c *Call) { until, c.Err = s.Session.Renew(ctx) })
	return until, err
}

func (s *session) State(ctx context.Context) (state []byte, err error) {
	_, err = s.ask(ctx, SessionState, func(ctx context.Context, c *Call) { state, c.Err = s.Session.State(ctx) })
	return state, err
}

func (s *session) SetState(ctx context.Context, state []byte) error {
	_, err := s.ask(ctx, SessionState, func(ctx context.Context, c *Call) { c.Err = s.Session.SetState(ctx, state) })
	return err
}

func (s *session) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) ([]core.Delivery, error) {
	return s.ask(ctx, ReceiveDeferred, func(ctx context.Context, c *Call) {
		c.Deliveries, c.Err = s.Session.ReceiveDeferred(ctx, numbers, mode)
	})
}

func (s *session) Peek(ctx context.Context, from int64, most int) ([]core.Delivery, error) {
	return s.ask(ctx, Peek, func(ctx context.Context, c *Call) { c.Deliveries, c.Err = s.Session.Peek(ctx, from, most) })
}

func (s *session) Purge(ctx context.Context, before time.Time, most int) (n int, err error) {
	_, err = s.ask(ctx, Purge, func(ctx context.Context, c *Call) { n, c.Err = s.Session.Purge(ctx, before, most) })
	return n, err
}
