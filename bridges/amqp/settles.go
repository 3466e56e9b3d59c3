package amqp

import (
	"bytes"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

// settleQueue collects the settlements of one address while those before them are in flight.
type settleQueue struct {
	conn        *conn
	address     core.Address
	items       []settleItem
	settlements []core.Settlement
	settling    bool

	unlocking int             // settlements, including those in flight, that make their messages available again
	held      []*receiverLink // links that may ask for messages once unlocking is 0
}

// settleItem says which delivery a settlement is for, and how the client is answered.
type settleItem struct {
	link    *receiverLink // nil: the gateway gives the message back
	settled bool          // the client awaits no outcome
	id      uint32        // delivery-id
	state   wire.DeliveryState
	size    int64 // bytes of the properties that it sets

	unlocks bool // it makes the message available again
}

// isAnswered reports whether the client awaits the outcome.
func (item *settleItem) isAnswered() bool { return item.link != nil && !item.settled }

// settle adds a settlement to the queue of its address.
func (c *conn) settle(address core.Address, item settleItem, s core.Settlement) {
	p := c.settleQueues[address]
	if p == nil {
		p = &settleQueue{conn: c, address: address}
		c.settleQueues[address] = p
	}
	if !item.isAnswered() {
		c.outstanding.settling++
	}
	if item.link != nil {
		item.link.settling++
	}
	if item.unlocks = s.Outcome == core.Release || s.Outcome == core.Abandon; item.unlocks {
		p.unlocking++
	}
	item.size = int64(len(s.Properties.Encoded()))
	c.buffered += item.size
	p.items = append(p.items, item)
	p.settlements = append(p.settlements, s)
	if len(p.items) == 1 && !p.settling {
		c.full = append(c.full, p)
	}
}

// start settles everything in the queue with one call.
func (p *settleQueue) start() {
	items, settlements := p.items, p.settlements
	p.items, p.settlements = nil, nil
	p.settling = true
	id := p.conn.identity
	p.conn.async(func(ctx context.Context) func() {
		errs := p.conn.bridge.front.Settle(ctx, id, p.address, settlements)
		return func() { p.settled(items, errs) }
	})
}

func (p *settleQueue) settled(items []settleItem, errs []error) {
	p.settling = false
	for i, item := range items {
		if item.unlocks {
			p.unlocking--
		}
		p.conn.buffered -= item.size
		if item.link != nil {
			item.link.settledOne()
		}
		if !item.isAnswered() {
			p.conn.outstanding.settling--
			continue
		}
		err := error(core.Internal) // the broker must return a result for each settlement
		if i < len(errs) {
			err = errs[i]
		}
		if core.CodeOf(err).Retriable() {
			item.link.interrupt(err)
			continue
		}
		if core.CodeOf(err) == core.SessionLockLost && item.link.session != nil {
			item.link.close(err) // the Go SDK closes its connection, with all other links, if an outcome has this error
			continue
		}
		state := item.state
		if err != nil {
			state = p.conn.rejected(item.link.link, err, item.link.addr, "delivery", item.id)
		}
		item.link.link.Session().Settle(item.id, state)
		item.link.ask() // there is room for another delivery
	}
	if p.unlocking == 0 {
		held := p.held
		p.held = nil
		for _, r := range held {
			r.held = false
			r.flowed()
		}
	}
	if len(p.items) > 0 {
		p.conn.full = append(p.conn.full, p)
	} else if p.conn.settleQueues[p.address] == p {
		delete(p.conn.settleQueues, p.address)
	}
}

// holds reports whether r must not ask for messages yet, because messages are being released and
// later ones must not overtake them. After their release, r asks.
func (p *settleQueue) holds(r *receiverLink) bool {
	if p == nil || p.unlocking == 0 {
		return false
	}
	if !r.held {
		r.held = true
		p.held = append(p.held, r)
	}
	return true
}

// given is the outcome that the client gives to a delivery, as it was when its frame was taken.
type given struct {
	id         uint32 // delivery-id
	settled    bool   // the client awaits no answer
	tag        engine.Tag
	settlement core.Settlement
	item       settleItem
	err        error // why the outcome is refused
}

// disposed takes the outcome that the client gives to a delivery. If the delivery has an outcome in
// a transaction that is being discharged, the new outcome waits for the discharge.
func (r *receiverLink) disposed(d engine.Disposal) {
	g := given{
		id: d.ID, settled: d.Settled, tag: d.Tag,
		settlement: core.Settlement{Token: swapToken(core.LockToken(d.Tag)), Session: r.lock},
	}
	state, enlists := d.State.(wire.TransactionalState)
	if enlists {
		d.State = state.Outcome
	}
	g.item = settleItem{link: r, id: d.ID, state: d.State, settled: d.Settled}
	if g.err = error(errNoOutcome); !enlists || d.State != nil {
		g.err = outcome(d.State, &g.settlement, &g.item)
	}
	p := r.provisional[d.ID]
	switch {
	case p != nil && !p.in.discharged:
		p.disposedAgain(d.Settled)
	case enlists:
		r.enlist(g, state, p)
	case p != nil:
		r.settling++
		later := g // only this copy must be on the heap
		p.in.after = append(p.in.after, func() {
			r.carryOut(&later)
			r.settledOne()
		})
	default:
		r.carryOut(&g)
	}
}

// carryOut carries out an outcome that belongs to no transaction.
func (r *receiverLink) carryOut(g *given) {
	delete(r.sent, g.tag)
	if g.settled {
		defer r.ask() // there is room for another delivery at once
	}
	switch {
	case g.err == nil:
		r.conn.settle(r.addr, g.item, g.settlement)
	case !g.settled:
		r.link.Session().Settle(g.id, r.conn.rejected(r.link, g.err, r.addr, "delivery", g.id))
	}
}

// outcome translates a delivery state into a settlement, and into the state that confirms it.
func outcome(state wire.DeliveryState, s *core.Settlement, item *settleItem) error {
	switch state := state.(type) {
	case wire.Accepted:
		s.Outcome = core.Complete
	case wire.Modified:
		s.Outcome = core.Abandon
		if state.UndeliverableHere.V {
			s.Outcome = core.Defer
		}
		s.Properties = textProperties(bytes.Clone(state.MessageAnnotations)) // which are in the read buffer
		item.state = modified
	case wire.Rejected:
		s.Outcome = core.DeadLetterOutcome
		item.state = rejected // without an error: to clients an error means a failure
		var err error
		if s.Properties, err = deadLetterProperties(state.Error); err != nil {
			return core.Refuse(core.InvalidArgument, "A property that the outcome modifies is not valid: %v.", err)
		}
	case wire.Released, wire.Received, nil: // settled without an outcome is as good as released
		s.Outcome = core.Release
		item.state = wire.Released{}
	default:
		return core.Refuse(core.InvalidArgument, "The delivery state is not an outcome.")
	}
	return nil
}

// The states that confirm an outcome of the same name.
var (
	modified wire.DeliveryState = wire.Modified{}
	rejected wire.DeliveryState = wire.Rejected{}
)

// deadLetterProperties returns the properties that a rejection sets. The reason and its description
// come from the entries with their names, of any type, or else from the error itself.
func deadLetterProperties(e *wire.Error) (core.Properties, error) {
	if e == nil {
		return core.Properties{}, nil
	}
	var pairs []core.Property
	var reason, description any
	if e.Condition != wire.CondDeadLetter && e.Condition != "" {
		reason = string(e.Condition)
	}
	if e.Description != "" {
		description = e.Description
	}
	for _, entry := range e.Info {
		key, ok := text(entry.Key)
		if !ok {
			continue
		}
		v := reasonValue(entry.Value)
		switch {
		case key != core.PropertyDeadLetterReason && key != core.PropertyDeadLetterDescription:
			pairs = append(pairs, core.Property{Key: key, Value: entry.Value})
		case v == nil:
		case key == core.PropertyDeadLetterReason:
			reason = v
		default:
			description = v
		}
	}
	if reason != nil {
		pairs = append(pairs, core.Property{Key: core.PropertyDeadLetterReason, Value: reason})
	}
	if description != nil {
		pairs = append(pairs, core.Property{Key: core.PropertyDeadLetterDescription, Value: description})
	}
	return core.NewProperties(pairs...)
}

// reasonValue returns the value of a reason or description: a symbol as a string, null as nil.
func reasonValue(v any) any {
	if s, ok := text(v); ok {
		return s
	}
	return v
}

// text returns a string or symbol as a string.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case value.Symbol:
		return string(v), true
	}
	return "", false
}

const (
	// lapseGrace is how long after the end of its lock a delivery is kept, because clocks may differ.
	lapseGrace = 5 * time.Second
	// lapsePause is the minimum time between searches for deliveries whose locks have ended.
	lapsePause = time.Second
	// fewRenewals is the number of recorded renewals up to which the expired ones are not removed.
	fewRenewals = 1024
)

// outstanding counts the deliveries of a connection, to bound them.
type outstanding struct {
	pending   int  // PeekLock deliveries that wait to be sent
	bytes     int  // of all deliveries that wait to be sent
	receivers int  // links that receive, except browsers
	settling  int  // settlements in flight of deliveries that are neither pending nor unsettled
	starved   bool // links would ask for deliveries if the connection had room
	crowded   bool // links would ask for deliveries if some were settled, or lapsed

	look    time.Time                    // the earliest time to look for lapsed deliveries
	renewed map[core.LockToken]time.Time // the new ends of locks that the client has renewed
	prune   int                          // the size of renewed from which expired locks are removed
}

// unsettled returns how many PeekLock deliveries count towards the connection's bound.
func (c *conn) unsettled() int {
	return c.eng.Unsettled() + c.outstanding.pending + c.outstanding.settling
}

// feed lets links ask for deliveries once the connection has room for more unsettled ones.
func (c *conn) feed(now time.Time) {
	r := &c.outstanding
	lapsed := r.crowded && !now.Before(r.look) && c.lapse(now)
	relieved := r.starved && c.unsettled() < c.bridge.opts.MaxConnectionUnsettled && r.bytes <= fair.Pending/2
	if !lapsed && !relieved {
		return
	}
	r.starved, r.crowded = false, false
	for l := range c.eng.Links() {
		if d, ok := l.Data.(interface{ ask() }); ok {
			d.ask()
		}
	}
}

// lapse forgets deliveries whose locks have ended, so that deliveries which a client leaves
// unsettled do not stop its links, and reports whether there were any. It takes into account
// renewals of locks on this connection, but does not know those on other connections.
func (c *conn) lapse(now time.Time) bool {
	r := &c.outstanding
	n, next := c.eng.Lapse(now.Add(-lapseGrace), func(tag engine.Tag, until time.Time) time.Time {
		if later := r.renewed[swapToken(core.LockToken(tag))]; later.After(until) {
			return later
		}
		return until
	})
	r.look = now.Add(lapsePause)
	if next = next.Add(lapseGrace); next.After(r.look) {
		r.look = next
	}
	r.crowded = r.crowded && c.eng.Unsettled() > 0
	return n > 0
}

// renew records the new end of a renewed lock.
func (c *conn) renew(token core.LockToken, until, now time.Time) {
	r := &c.outstanding
	if r.renewed == nil {
		r.renewed = make(map[core.LockToken]time.Time)
	}
	r.renewed[token] = until
	if len(r.renewed) <= max(r.prune, fewRenewals) {
		return
	}
	for t, until := range r.renewed {
		if until.Before(now) {
			delete(r.renewed, t)
		}
	}
	r.prune = 2 * len(r.renewed)
}
