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

// settleQueue collects settlements for one address while a call with earlier ones is in flight.
type settleQueue struct {
	conn        *conn
	address     core.Address
	items       []settleItem
	settlements []core.Settlement
	settling    bool

	unlocking int             // settlements, waiting or in flight, that make messages available
	held      []*receiverLink // links that request no messages until unlocking is 0
}

type settleItem struct {
	link    *receiverLink // nil if the gateway itself unlocks the message
	settled bool          // the client has settled, so it gets no answer
	id      uint32        // delivery-id
	state   wire.DeliveryState
	size    int64 // bytes of the properties that the settlement sets

	unlocks bool
}

func (item *settleItem) isAnswered() bool { return item.link != nil && !item.settled }

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
	s.Unanswered = item.settled && s.Outcome == core.Complete && s.Session == nil // other outcomes make messages available, and the end of a session waits for its settlements
	item.size = int64(len(s.Properties.Encoded()))
	c.buffered += item.size
	p.items = append(p.items, item)
	p.settlements = append(p.settlements, s)
	if len(p.items) == 1 && !p.settling {
		c.full = append(c.full, p)
	}
}

func (p *settleQueue) start() {
	if p.settling || len(p.items) == 0 { // settled can add p to conn.full twice
		return
	}
	items, settlements := p.items, p.settlements
	p.items, p.settlements = nil, nil
	p.settling = true
	id := p.conn.Identity
	p.conn.Calls.Begin(func(ctx context.Context) func() {
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
		err := error(core.Internal) // used if the broker returns no result for a settlement, which should not happen
		if i < len(errs) {
			err = errs[i]
		}
		if core.CodeOf(err).Retriable() {
			item.link.interrupt(err)
			continue
		}
		if core.CodeOf(err) == core.SessionLockLost && item.link.session != nil {
			item.link.close(err) // as an outcome, this error would make the Go SDK close its whole connection
			continue
		}
		state := item.state
		if err != nil {
			state = p.conn.rejected(item.link.link, err, item.link.addr, "delivery", item.id)
		}
		item.link.link.Session().Settle(item.id, state)
		item.link.ask()
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

// holds reports whether r must wait before it requests messages, because earlier messages are being
// unlocked. If so, p lets r request messages when they are unlocked.
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

type given struct {
	id         uint32 // delivery-id
	settled    bool   // the client has settled, so it gets no answer
	tag        engine.Tag
	settlement core.Settlement
	item       settleItem
	err        error // why the outcome is refused, or nil
}

// disposed takes the client's outcome for a delivery. If the delivery has an outcome in a
// transaction that is being discharged, d waits for the end of the transaction.
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
		later := g // so that only this copy is allocated on the heap
		p.in.after = append(p.in.after, func() {
			r.carryOut(&later)
			r.settledOne()
		})
	default:
		r.carryOut(&g)
	}
}

func (r *receiverLink) carryOut(g *given) {
	delete(r.sent, g.tag)
	if g.settled {
		defer r.ask() // when the client settles, another delivery may be requested at once
	}
	switch {
	case g.err == nil:
		r.conn.settle(r.addr, g.item, g.settlement)
	case !g.settled:
		r.link.Session().Settle(g.id, r.conn.rejected(r.link, g.err, r.addr, "delivery", g.id))
	}
}

// outcome translates state into a settlement, and into item.state, the state for the answer.
func outcome(state wire.DeliveryState, s *core.Settlement, item *settleItem) error {
	switch state := state.(type) {
	case wire.Accepted:
		s.Outcome = core.Complete
	case wire.Modified:
		s.Outcome = core.Abandon
		if state.UndeliverableHere.V {
			s.Outcome = core.Defer
		}
		s.Properties = textProperties(bytes.Clone(state.MessageAnnotations)) // copied, because they are in the read buffer
		item.state = modified
	case wire.Rejected:
		s.Outcome = core.DeadLetterOutcome
		item.state = rejected // without an error, because clients take an error for a failure
		var err error
		if s.Properties, err = deadLetterProperties(state.Error); err != nil {
			return core.Refuse(core.InvalidArgument, "A property in the error info of the rejected outcome is not valid: %v.", err)
		}
	case wire.Released, wire.Received, nil: // settled without an outcome means released
		s.Outcome = core.Release
		item.state = wire.Released{}
	default:
		return core.Refuse(core.InvalidArgument, "The delivery state is not an outcome: use accepted, rejected, released or modified.")
	}
	return nil
}

var (
	modified wire.DeliveryState = wire.Modified{}
	rejected wire.DeliveryState = wire.Rejected{}
)

// deadLetterProperties returns the properties that a rejection sets. It takes reason and
// description, of any type, from e.Info, or else from e itself.
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

func reasonValue(v any) any {
	if s, ok := text(v); ok {
		return s
	}
	return v
}

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
	// lapseGrace is how long a delivery counts as unsettled after the end of its lock, because
	// clocks may differ.
	lapseGrace  = 5 * time.Second
	lapsePause  = time.Second
	fewRenewals = 1024
)

type outstanding struct {
	pending   int // locked deliveries that wait to be sent
	bytes     int // bytes of all deliveries that wait to be sent
	receivers int // receiving links, except those that only browse
	settling  int
	noMemory  bool // a link could not request deliveries for lack of memory
	atLimit   bool // a link could not request deliveries, because too many are unsettled

	look    time.Time                    // when to search next for ended locks
	renewed map[core.LockToken]time.Time // new ends of locks that the client has renewed
	prune   int                          // number of entries in renewed at which those that have ended are removed
}

// unsettled returns how many locked deliveries count for MaxConnectionUnsettled.
func (c *conn) unsettled() int {
	return c.eng.Unsettled() + c.outstanding.pending + c.outstanding.settling
}

func (c *conn) feed(now time.Time) {
	r := &c.outstanding
	lapsed := r.atLimit && !now.Before(r.look) && c.lapse(now)
	relieved := r.noMemory && c.unsettled() < c.bridge.opts.MaxConnectionUnsettled && r.bytes <= fair.Pending/2
	if !lapsed && !relieved {
		return
	}
	r.noMemory, r.atLimit = false, false
	for l := range c.eng.Links() {
		if d, ok := l.Data.(interface{ ask() }); ok {
			d.ask()
		}
	}
}

// lapse stops counting deliveries whose locks have ended, so that a client that leaves deliveries
// unsettled gets further ones. It reports whether it found any. It knows only renewals that were
// made on this connection.
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
	r.atLimit = r.atLimit && c.eng.Unsettled() > 0
	return n > 0
}

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
