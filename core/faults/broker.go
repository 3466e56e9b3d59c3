package faults

import (
	"context"
	"sync"
	"time"

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
	if !s.front.rules.any.Load() {
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
	if !x.rules.any.Load() {
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
	if !x.rules.any.Load() {
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

// OpenReceiver implements core.Broker.
func (x *front) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (r core.Receiver, err error) {
	x.watch(ctx, id, address, &o, nil)
	err = x.do(ctx, id, OpenReceiver, address, func() error {
		r, err = x.Broker.OpenReceiver(ctx, id, address, o)
		return err
	})
	if err != nil && r != nil {
		r.Close()
		r = nil
	}
	return r, err
}

// loseLockTimeout bounds the call that takes a lock away.
const loseLockTimeout = 10 * time.Second

// watch has deliveries meet rules. held returns the session that a receiver holds; nil: it holds none.
func (x *front) watch(ctx context.Context, id core.Identity, address string, o *core.ReceiverOptions, held func() core.Session) {
	deliver, detach := o.Deliver, once(o.Closed)
	o.Closed = detach
	ctx = context.WithoutCancel(ctx) // the receiver outlives the call that opens it
	o.Deliver = func(ds []core.Delivery) {
		if !x.rules.any.Load() {
			deliver(ds)
			return
		}
		for i := range ds {
			one := ds[i : i+1 : i+1]
			f := x.rules.meet(ctx, policyOf(id), Deliver, address, one[0].Message)
			if f == nil || f.After || f.Effect == LoseLock {
				deliver(one)
			}
			switch {
			case f == nil:
			case f.Effect == Drop:
				time.AfterFunc(f.Delay, func() { core.Disconnect(ctx) })
			case f.Effect == Detach && detach != nil:
				go detach(f.refusal())
			case f.Effect == LoseLock && held != nil:
				go func() {
					if s := held(); s != nil {
						s.Close()
						if detach == nil {
							return
						}
						detach(core.Refuse(core.SessionLockLost, "A fault on demand: the rule '%s' of this namespace.", f.Name))
					}
				}()
			case f.Effect == LoseLock && !one[0].LockToken.IsZero():
				token := one[0].LockToken
				go func() {
					ctx, cancel := context.WithTimeout(ctx, loseLockTimeout)
					defer cancel()
					x.Broker.Settle(ctx, id, address, []core.Settlement{{Token: token, Outcome: core.Abandon}})
				}()
			}
		}
	}
}

// AcceptSession implements core.Broker.
func (x *front) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (s core.Session, err error) {
	var mu sync.Mutex
	mu.Lock()
	x.watch(ctx, id, address, &o.ReceiverOptions, func() core.Session {
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
	return &faultySession{s, x, id, address}, nil
}

// faultySession is a session whose calls may meet rules.
type faultySession struct {
	core.Session
	front   *front
	id      core.Identity
	address string
}

// Renew implements core.Session.
func (s *faultySession) Renew(ctx context.Context) (until time.Time, err error) {
	err = s.front.do(ctx, s.id, RenewSession, s.address, func() error {
		until, err = s.Session.Renew(ctx)
		return err
	})
	return until, err
}

// State implements core.Session.
func (s *faultySession) State(ctx context.Context) (state []byte, err error) {
	err = s.front.do(ctx, s.id, SessionState, s.address, func() error {
		state, err = s.Session.State(ctx)
		return err
	})
	return state, err
}

// SetState implements core.Session.
func (s *faultySession) SetState(ctx context.Context, state []byte) error {
	return s.front.do(ctx, s.id, SessionState, s.address, func() error { return s.Session.SetState(ctx, state) })
}

// Peek implements core.Broker.
func (x *front) Peek(ctx context.Context, id core.Identity, address string, from int64, limit int) (ds []core.Delivery, err error) {
	err = x.do(ctx, id, Peek, address, func() error {
		ds, err = x.Broker.Peek(ctx, id, address, from, limit)
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
