package websocket

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// settleQueue collects settlements for one address while a call with earlier ones is in flight.
type settleQueue struct {
	conn        *conn
	address     core.Address
	requests    []settleRequest
	settlements []core.Settlement
	settling    bool
}

type settleRequest struct {
	q    *request // nil if the gateway itself unlocks messages
	n    int
	then func() // called after the answer; may be nil
}

func (c *conn) settle(q *request) {
	if !q.has("feed") {
		addr, err := c.addressOf(q.entity, core.Listen)
		if err != nil {
			c.refuse(q, err)
			return
		}
		c.queueSettlements(addr, settleRequest{q: q, n: len(q.settlements)}, q.settlements...)
		return
	}
	c.onFeed(q, func(f *feed) {
		if err := c.Identity.Check(core.Listen, f.address.String(), time.Now()); err != nil {
			c.refuse(q, err)
			return
		}
		r := settleRequest{q: q, n: len(q.settlements)}
		if f.held != nil { // later requests that need the session wait for this one
			f.busy = true
			r.then = f.next
			for i := range q.settlements {
				q.settlements[i].Session = f.lock
			}
		}
		c.queueSettlements(f.address, r, q.settlements...)
	})
}

func (c *conn) queueSettlements(address core.Address, r settleRequest, settlements ...core.Settlement) {
	key := core.FoldName(address.String())
	p := c.settleQueues[key]
	if p == nil {
		p = &settleQueue{conn: c, address: address}
		if c.settleQueues == nil {
			c.settleQueues = make(map[string]*settleQueue)
		}
		c.settleQueues[key] = p
	}
	p.requests = append(p.requests, r)
	p.settlements = append(p.settlements, settlements...)
	if len(p.requests) == 1 && !p.settling {
		c.full = append(c.full, p)
	}
}

func (p *settleQueue) start() {
	if p.settling || len(p.requests) == 0 {
		return
	}
	requests, settlements := p.requests, p.settlements
	p.requests, p.settlements = nil, nil
	p.settling = true
	id := p.conn.Identity
	p.conn.Calls.Begin(func(ctx context.Context) func() {
		errs := p.conn.bridge.front.Settle(ctx, id, p.address, settlements)
		return func() { p.settled(requests, errs) }
	})
}

func (p *settleQueue) settled(requests []settleRequest, errs []error) {
	c := p.conn
	p.settling = false
	for _, r := range requests {
		if r.q != nil {
			c.answer(r.q, func(w codec.Writer) {
				c.writeResults(w, p.address.String(), r.n, func(i int) error {
					if i >= len(errs) { // the broker should have returned a result for each settlement
						return core.Internal
					}
					if errs[i] == nil {
						w.Null()
					}
					return errs[i]
				})
			})
		}
		errs = errs[min(r.n, len(errs)):]
		if r.then != nil {
			r.then()
		}
	}
	if len(p.requests) > 0 {
		c.full = append(c.full, p)
	} else {
		delete(c.settleQueues, core.FoldName(p.address.String()))
	}
}

func (c *conn) writeResults(w codec.Writer, entity string, n int, write func(i int) error) {
	w.Key("results").OpenList()
	for i := range n {
		if err := write(i); err != nil {
			w.OpenMap()
			c.writeError(w, err, entity)
			w.CloseMap()
		}
	}
	w.CloseList(n)
}

func (c *conn) renew(ctx context.Context, o call) (answer, error) {
	renewals := c.bridge.front.Renew(ctx, o.id, core.At(o.entity), o.lockTokens)
	return func(w codec.Writer) {
		c.writeResults(w, o.entity, len(renewals), func(i int) error {
			if err := renewals[i].Err; err != nil {
				return err
			}
			w.OpenMap()
			w.Key("lockedUntil").Instant(renewals[i].Until.UnixMilli())
			w.CloseMap()
			return nil
		})
	}, nil
}

var readOutcome = oneOf(choice[core.Outcome]{"complete", core.Complete}, choice[core.Outcome]{"abandon", core.Abandon},
	choice[core.Outcome]{"defer", core.Defer}, choice[core.Outcome]{"deadLetter", core.DeadLetterOutcome}, choice[core.Outcome]{"release", core.Release})

func readSettlement(r *codec.Reader) (s core.Settlement, err error) {
	seen := map[string]bool{}
	var why []core.Property
	if err := frame.ReadMap(r, "a map", func(name string) (err error) {
		seen[name] = true
		switch name {
		case "lockToken":
			s.Token, err = readLockToken(r)
		case "outcome":
			s.Outcome, err = readOutcome(r)
		case "properties":
			s.Properties, err = frame.ReadProperties(r)
		case "reason", "description":
			var text string
			text, err = frame.ReadText(r)
			key := core.PropertyDeadLetterReason
			if name == "description" {
				key = core.PropertyDeadLetterDescription
			}
			why = append(why, core.Property{Key: key, Value: text})
		default:
			err = frame.Wrong("is not a member of a settlement")
		}
		return err
	}); err != nil {
		return s, err
	}
	for _, name := range [...]string{"lockToken", "outcome"} {
		if !seen[name] {
			return s, frame.In(name, frame.Wrong("is missing"))
		}
	}
	switch {
	case len(why) > 0 && s.Outcome != core.DeadLetterOutcome:
		return s, frame.Wrong("has a reason or a description, which are only allowed with deadLetter")
	case seen["properties"] && s.Outcome == core.Complete:
		return s, frame.Wrong("has properties, which are not allowed with complete")
	}
	if len(why) > 0 {
		p, err := core.NewProperties(why...)
		if err != nil {
			return s, frame.Wrong("has a reason or a description that is not a string: %v", err)
		}
		s.Properties = s.Properties.Merge(p)
	}
	return s, nil
}
