package faults

import (
	"context"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// front is a core.Broker whose operations meet rules.
type front struct {
	core.Broker
	rules *Rules
}

// Broker puts the rules in front of a broker.
func (r *Rules) Broker(b core.Broker) core.Broker { return &front{b, r} }

// policyOf is the policy of the first claim of an identity.
func policyOf(id core.Identity) string {
	if len(id) == 0 {
		return ""
	}
	return id[0].Policy
}

// do does an operation that has no message, with the effect of the rule that it meets.
func (x *front) do(ctx context.Context, id core.Identity, op Operation, address string, do func() error) error {
	return x.rules.meet(ctx, policyOf(id), op, address, nil).around(ctx, do, nil)
}

// OpenSender implements core.Broker.
func (x *front) OpenSender(ctx context.Context, id core.Identity, address string, closed func(error)) (sender core.Sender, err error) {
	detach := once(closed)
	s := &faultySender{front: x, policy: policyOf(id), address: address, detach: detach}
	err = x.do(ctx, id, OpenSender, address, func() error {
		s.Sender, err = x.Broker.OpenSender(ctx, id, address, detach)
		return err
	})
	if err != nil {
		if s.Sender != nil {
			s.Close()
		}
		return nil, err
	}
	return s, nil
}

// once has a callback called at most once; nil stays nil.
func once(f func(error)) func(error) {
	if f == nil {
		return nil
	}
	var o sync.Once
	return func(err error) { o.Do(func() { f(err) }) }
}

// faultySender is a sender whose calls may meet rules.
type faultySender struct {
	core.Sender
	front   *front
	policy  string
	address string
	detach  func(error)
}

// Send implements core.Sender. Groups go one by one while there are rules, so that a rule meets as many
// as it says.
func (s *faultySender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	if s.front.rules.idle() {
		return s.Sender.Send(ctx, groups)
	}
	answers := make([]core.Appended, len(groups))
	for i := range groups {
		var m *core.Message
		if len(groups[i]) > 0 {
			m = groups[i][0]
		}
		f := s.front.rules.meet(ctx, s.policy, Send, s.address, m)
		err := f.around(ctx, func() error {
			answers[i] = s.Sender.Send(ctx, groups[i:i+1])[0]
			return answers[i].Err
		}, s.detach)
		if err != nil {
			answers[i] = core.Appended{Err: err}
		}
	}
	return answers
}

// Settle implements core.Broker.
func (x *front) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) []error {
	if x.rules.idle() {
		return x.Broker.Settle(ctx, id, address, settlements)
	}
	errs := make([]error, len(settlements))
	for i := range settlements {
		one := settlements[i : i+1 : i+1]
		f := x.rules.meet(ctx, policyOf(id), Operation(one[0].Outcome.String()), address, nil)
		if f != nil && f.Effect == DeliverTwice {
			again := one[0]
			again.Outcome = core.Abandon
			errs[i] = x.Broker.Settle(ctx, id, address, []core.Settlement{again})[0]
			continue
		}
		errs[i] = f.around(ctx, func() error { return x.Broker.Settle(ctx, id, address, one)[0] }, nil)
	}
	return errs
}

// Renew implements core.Broker.
func (x *front) Renew(ctx context.Context, id core.Identity, address string, tokens []core.LockToken) []core.Renewal {
	if x.rules.idle() {
		return x.Broker.Renew(ctx, id, address, tokens)
	}
	renewals := make([]core.Renewal, len(tokens))
	for i := range tokens {
		err := x.do(ctx, id, Renew, address, func() error {
			renewals[i] = x.Broker.Renew(ctx, id, address, tokens[i:i+1])[0]
			return renewals[i].Err
		})
		if err != nil {
			renewals[i] = core.Renewal{Err: err}
		}
	}
	return renewals
}

// Peek implements core.Broker.
func (x *front) Peek(ctx context.Context, id core.Identity, address string, from int64, limit int) (ds []core.Delivery, err error) {
	err = x.do(ctx, id, Peek, address, func() error {
		ds, err = x.Broker.Peek(ctx, id, address, from, limit)
		return err
	})
	return ds, err
}

// PeekState implements core.Broker.
func (x *front) PeekState(ctx context.Context, id core.Identity, address string, state core.State, from int64, limit int) (ds []core.Delivery, err error) {
	err = x.do(ctx, id, Peek, address, func() error {
		ds, err = x.Broker.PeekState(ctx, id, address, state, from, limit)
		return err
	})
	return ds, err
}

// ReceiveDeferred implements core.Broker.
func (x *front) ReceiveDeferred(ctx context.Context, id core.Identity, address string, numbers []int64, mode core.ReceiveMode) (ds []core.Delivery, err error) {
	err = x.do(ctx, id, ReceiveDeferred, address, func() error {
		ds, err = x.Broker.ReceiveDeferred(ctx, id, address, numbers, mode)
		return err
	})
	return ds, err
}

// Cancel implements core.Broker.
func (x *front) Cancel(ctx context.Context, id core.Identity, address string, numbers []int64) error {
	return x.do(ctx, id, Cancel, address, func() error { return x.Broker.Cancel(ctx, id, address, numbers) })
}

// Begin implements core.Transactions.
func (x *front) Begin() core.Transaction { return &faultyTransaction{x.Broker.Begin(), x} }

// faultyTransaction is a transaction whose calls may meet rules.
type faultyTransaction struct {
	core.Transaction
	front *front
}

// Send implements core.Transaction.
func (t *faultyTransaction) Send(ctx context.Context, id core.Identity, address, via string, group []*core.Message) error {
	var m *core.Message
	if len(group) > 0 {
		m = group[0]
	}
	return t.front.rules.meet(ctx, policyOf(id), Send, address, m).around(ctx, func() error {
		return t.Transaction.Send(ctx, id, address, via, group)
	}, nil)
}

// Settle implements core.Transaction. What is settled together meets a rule together.
func (t *faultyTransaction) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) error {
	do := func() error { return t.Transaction.Settle(ctx, id, address, settlements) }
	if len(settlements) == 0 {
		return do()
	}
	f := t.front.rules.meet(ctx, policyOf(id), Operation(settlements[0].Outcome.String()), address, nil)
	if f != nil && f.Effect == DeliverTwice {
		return nil // the message is not settled: its lock ends, and it comes again
	}
	return f.around(ctx, do, nil)
}

// Commit implements core.Transaction.
func (t *faultyTransaction) Commit(ctx context.Context) error {
	return t.front.do(ctx, nil, Commit, "", func() error { return t.Transaction.Commit(ctx) })
}
