package faults

import (
	"context"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/intercept"
)

// While there are rules, Intercept carries out the groups, settlements and tokens of a call one by
// one, so that a rule affects the configured number of them. The settlements of one call of a
// transaction count as one operation.
func (r *Rules) Intercept(ctx context.Context, c *intercept.Call) {
	if c.Options != nil {
		c.Options.Closed = once(c.Options.Closed)
	}
	if c.Op == intercept.OpenReceiver || c.Op == intercept.AcceptSession {
		r.watch(ctx, c)
	}
	if len(r.current()) == 0 {
		c.Next(ctx)
		return
	}
	one := func() { r.one(ctx, c) }
	switch {
	case c.InTransaction():
		one()
	case c.Op == intercept.Send:
		each(&c.Groups, &c.Appended, one)
	case c.Op == intercept.Settle:
		each(&c.Settlements, &c.Errs, one)
	case c.Op == intercept.Renew:
		each(&c.Tokens, &c.Renewals, one)
	default:
		one()
	}
}

func each[E, A any](asked *[]E, answered *[]A, one func()) {
	all, answers := *asked, make([]A, len(*asked))
	for i := range all {
		*asked = all[i : i+1 : i+1]
		one()
		answers[i] = (*answered)[0]
	}
	*asked, *answered = all, answers
}

func once(f func(error)) func(error) {
	if f == nil {
		return nil
	}
	var o sync.Once
	return func(err error) { o.Do(func() { f(err) }) }
}

// about returns the operation of a call, and its message if any. Cancellations and session states
// in a transaction have the operation "". Rules select only operations in allowed.
func about(c *intercept.Call) (op Operation, m *core.Message) {
	switch {
	case c.Op == intercept.Settle && len(c.Settlements) > 0:
		return Operation(c.Settlements[0].Outcome.String()), nil
	case c.Op == intercept.Send && len(c.Groups[0]) > 0:
		return Send, c.Groups[0][0]
	case c.InTransaction() && (c.Op == intercept.Settle || c.Op == intercept.Cancel || c.Op == intercept.SessionState):
		return "", nil
	}
	return Operation(c.Op.String()), nil
}

func (r *Rules) one(ctx context.Context, c *intercept.Call) {
	op, m := about(c)
	f := r.meet(ctx, c.ID.First().Policy, op, c.Address, m)
	switch {
	case f == nil || f.Effect == Delay:
		c.Next(ctx)
	case f.Effect == DeliverTwice && c.InTransaction(): // do nothing: the lock ends, and the message is delivered again
	case f.Effect == DeliverTwice:
		again := c.Settlements[0]
		again.Outcome = core.Abandon
		c.Settlements = []core.Settlement{again}
		c.Next(ctx)
	default:
		if f.After {
			c.Next(ctx)
		}
		var detach func(error)
		if c.Link != nil {
			detach = c.Link.Closed
		}
		c.Fail(f.refuse(ctx, detach))
	}
}
