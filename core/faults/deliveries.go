package faults

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

type deliveries struct {
	rules     *Rules
	ctx       context.Context // contains the client's connection, which Drop and Cut break
	policy    string
	address   core.Address
	link      *intercept.Link
	inSession bool
	forward   func([]core.Delivery)
	detach    func(error) // the receiver's Closed; may be nil

	mu     sync.Mutex // also held while forward runs
	held   []core.Delivery
	late   *time.Timer // delivers the messages in held, unless another message is delivered first
	closed bool
}

func (r *Rules) watch(ctx context.Context, c *intercept.Call) {
	d := &deliveries{
		rules: r, ctx: context.WithoutCancel(ctx), policy: c.ID.First().Policy, address: c.Address, link: c.Link,
		inSession: c.Op == intercept.AcceptSession, forward: c.Options.Deliver, detach: c.Options.Closed,
	}
	c.Options.Deliver = d.deliver
	c.Link.Add(d)
}

func (d *deliveries) deliver(ds []core.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rules.current()) == 0 && len(d.held) == 0 {
		d.forward(ds)
		return
	}
	for i := range ds {
		d.one(d.rules.meet(d.ctx, d.policy, Deliver, d.address, ds[i].Message), ds[i:i+1:i+1])
	}
}

// one delivers a single message (one has length 1), with the effect of f unless f is nil. d.mu is
// held.
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
	case f.Effect == LoseLock && d.inSession:
		go d.loseSession(f)
	case f.Effect == LoseLock:
		go d.abandon(one)
	}
}

// hold delays a message until the next one is delivered, but at most for atMost. d.mu is held.
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

// d.mu is held.
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

// Close abandons the delayed messages, except in a session: the end of the session releases them,
// without a failed delivery.
func (d *deliveries) Close() {
	d.mu.Lock()
	held := d.held
	d.closed, d.held = true, nil
	d.flush()
	d.mu.Unlock()
	if len(held) > 0 && !d.inSession {
		go d.abandon(held)
	}
}

// Drained first delivers the delayed messages.
func (d *deliveries) Drained(then func()) {
	d.mu.Lock()
	d.flush()
	d.mu.Unlock()
	then()
}

func (d *deliveries) loseSession(f *Rule) {
	d.link.Close()
	if d.detach != nil {
		d.detach(core.Refuse(core.SessionLockLost, "Injected by the fault rule '%s' of this namespace: the lock of the session has ended.", f.Name))
	}
}

func (d *deliveries) abandon(ds []core.Delivery) {
	ds = slices.DeleteFunc(slices.Clone(ds), func(d core.Delivery) bool { return d.LockToken.IsZero() })
	d.link.Settle(d.ctx, ds, core.Settlement{Outcome: core.Abandon})
}
