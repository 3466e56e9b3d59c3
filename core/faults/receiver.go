package faults

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// settleTimeout bounds the calls that take locks away.
const settleTimeout = 10 * time.Second

// deliveries is the way of messages to one receiver, on which they meet rules.
type deliveries struct {
	front   *front
	ctx     context.Context // has the connection
	id      core.Identity
	address string
	forward func([]core.Delivery)
	detach  func(error)         // nil where the bridge has no use for it
	session func() core.Session // the one that the receiver holds; nil: it holds none

	mu     sync.Mutex // one forward at a time
	held   []core.Delivery
	late   *time.Timer // when those held go, if no other message comes before
	closed bool
}

// watch has a receiver's messages meet rules.
func (x *front) watch(ctx context.Context, id core.Identity, address string, o *core.ReceiverOptions, session func() core.Session) *deliveries {
	d := &deliveries{front: x, ctx: context.WithoutCancel(ctx), id: id, address: address, forward: o.Deliver, detach: once(o.Closed), session: session}
	o.Deliver, o.Closed = d.deliver, d.detach
	return d
}

// deliver is the receiver's Deliver.
func (d *deliveries) deliver(ds []core.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.front.rules.idle() && len(d.held) == 0 {
		d.forward(ds)
		return
	}
	for i := range ds {
		d.one(d.front.rules.meet(d.ctx, policyOf(d.id), Deliver, d.address, ds[i].Message), ds[i:i+1:i+1])
	}
}

// one delivers one message with the effect of a rule, nil: none. d.mu is held.
func (d *deliveries) one(f *Rule, one []core.Delivery) {
	if f == nil {
		d.forward(one)
		d.flush()
		return
	}
	if f.Effect == Reorder {
		d.hold(one[0], f.Delay)
		return
	}
	if f.Effect == Cut {
		core.DisconnectAfter(d.ctx, one[0].Message.Size()/2+1)
	}
	if f.Effect == Drop && f.After && f.Delay == 0 {
		core.DisconnectAfter(d.ctx, math.MaxInt)
	}
	if f.After || f.Effect == LoseLock || f.Effect == Cut {
		d.forward(one)
	}
	switch {
	case f.Effect == Drop && (!f.After || f.Delay > 0):
		time.AfterFunc(f.Delay, func() { core.Disconnect(d.ctx) })
	case f.Effect == Detach && d.detach != nil:
		go d.detach(f.refusal())
	case f.Effect == LoseLock && d.session != nil:
		go d.loseSession(f)
	case f.Effect == LoseLock:
		go d.abandon(one)
	}
}

// hold keeps a message back until the next one has been delivered, or a time has passed. d.mu is held.
func (d *deliveries) hold(one core.Delivery, atMost time.Duration) {
	d.held = append(d.held, one)
	if d.late != nil {
		return
	}
	d.late = time.AfterFunc(atMost, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.flush()
	})
}

// flush delivers what was kept back. d.mu is held.
func (d *deliveries) flush() {
	if d.late != nil {
		d.late.Stop()
		d.late = nil
	}
	if held := d.held; len(held) > 0 && !d.closed {
		d.held = nil
		d.forward(held)
	}
}

// end ends the deliveries, and returns the messages that were kept back.
func (d *deliveries) end() []core.Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.held
	d.closed, d.held = true, nil
	d.flush()
	return held
}

// drained is what happens at the end of a drain: first, what was kept back is delivered.
func (d *deliveries) drained(then func(unspent int)) func(unspent int) {
	return func(unspent int) {
		d.mu.Lock()
		d.flush()
		d.mu.Unlock()
		then(unspent)
	}
}

// loseSession takes the receiver's session away.
func (d *deliveries) loseSession(f *Rule) {
	s := d.session()
	if s == nil {
		return
	}
	s.Close()
	if d.detach != nil {
		d.detach(core.Refuse(core.SessionLockLost, "A fault on demand: the rule '%s' of this namespace.", f.Name))
	}
}

// abandon takes the locks of messages away.
func (d *deliveries) abandon(ds []core.Delivery) {
	ctx, cancel := context.WithTimeout(d.ctx, settleTimeout)
	defer cancel()
	for i := range ds {
		if token := ds[i].LockToken; !token.IsZero() {
			d.front.Broker.Settle(ctx, d.id, d.address, []core.Settlement{{Token: token, Outcome: core.Abandon}})
		}
	}
}

// OpenReceiver implements core.Broker.
func (x *front) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (r core.Receiver, err error) {
	d := x.watch(ctx, id, address, &o, nil)
	err = x.do(ctx, id, OpenReceiver, address, func() error {
		r, err = x.Broker.OpenReceiver(ctx, id, address, o)
		return err
	})
	if err == nil {
		return &faultyReceiver{r, d}, nil
	}
	if r != nil {
		r.Close()
	}
	return nil, err
}

// faultyReceiver is a receiver whose messages may meet rules.
type faultyReceiver struct {
	core.Receiver
	deliveries *deliveries
}

// Drain implements core.Receiver.
func (r *faultyReceiver) Drain(drained func(unspent int)) {
	r.Receiver.Drain(r.deliveries.drained(drained))
}

// Close implements core.Receiver. Messages that were kept back are available again.
func (r *faultyReceiver) Close() {
	r.Receiver.Close()
	if held := r.deliveries.end(); len(held) > 0 {
		go r.deliveries.abandon(held)
	}
}

// AcceptSession implements core.Broker.
func (x *front) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (s core.Session, err error) {
	var mu sync.Mutex
	mu.Lock()
	d := x.watch(ctx, id, address, &o.ReceiverOptions, func() core.Session {
		mu.Lock()
		defer mu.Unlock()
		return s
	})
	err = x.do(ctx, id, AcceptSession, address, func() error {
		s, err = x.Broker.AcceptSession(ctx, id, address, o)
		return err
	})
	if err != nil && s != nil {
		s.Close()
		s = nil
	}
	mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &faultySession{s, d}, nil
}

// faultySession is a session whose messages and calls may meet rules.
type faultySession struct {
	core.Session
	deliveries *deliveries
}

// do does an operation with the effect of the rule that it meets.
func (s *faultySession) do(ctx context.Context, op Operation, do func() error) error {
	return s.deliveries.front.do(ctx, s.deliveries.id, op, s.deliveries.address, do)
}

// Drain implements core.Receiver.
func (s *faultySession) Drain(drained func(unspent int)) {
	s.Session.Drain(s.deliveries.drained(drained))
}

// Close implements core.Session. It releases what was kept back, too: that is not settled.
func (s *faultySession) Close() {
	s.Session.Close()
	s.deliveries.end()
}

// CloseAfter implements core.Session.
func (s *faultySession) CloseAfter(settled <-chan struct{}) {
	s.Session.CloseAfter(settled)
	s.deliveries.end()
}

// Renew implements core.Session.
func (s *faultySession) Renew(ctx context.Context) (until time.Time, err error) {
	err = s.do(ctx, RenewSession, func() error {
		until, err = s.Session.Renew(ctx)
		return err
	})
	return until, err
}

// State implements core.Session.
func (s *faultySession) State(ctx context.Context) (state []byte, err error) {
	err = s.do(ctx, SessionState, func() error {
		state, err = s.Session.State(ctx)
		return err
	})
	return state, err
}

// SetState implements core.Session.
func (s *faultySession) SetState(ctx context.Context, state []byte) error {
	return s.do(ctx, SessionState, func() error { return s.Session.SetState(ctx, state) })
}

// Peek implements core.Session.
func (s *faultySession) Peek(ctx context.Context, from int64, limit int) (ds []core.Delivery, err error) {
	err = s.do(ctx, Peek, func() error {
		ds, err = s.Session.Peek(ctx, from, limit)
		return err
	})
	return ds, err
}

// ReceiveDeferred implements core.Session.
func (s *faultySession) ReceiveDeferred(ctx context.Context, numbers []int64, mode core.ReceiveMode) (ds []core.Delivery, err error) {
	err = s.do(ctx, ReceiveDeferred, func() error {
		ds, err = s.Session.ReceiveDeferred(ctx, numbers, mode)
		return err
	})
	return ds, err
}
