package crosstowntest

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Operation is what a client asks the gateway for.
type Operation uint8

// The operations that a Fault may be about.
const (
	Send          Operation = iota // messages, whether to be scheduled or not
	Settle                         // complete, abandon, defer, dead-letter
	Renew                          // the lock of a message
	Receive                        // to open a receiver, without a session
	AcceptSession                  // a certain one, or the next
	Peek
)

// Fault makes operations go wrong. Its zero value fails the next Send of any entity as busy.
type Fault struct {
	Operation Operation
	// Entity is what the operation is about: orders, topic/Subscriptions/name, orders/$DeadLetterQueue;
	// "": any.
	Entity string
	// Code is what the client is told: core.Busy ("server busy", which SDKs try again), core.Timeout,
	// core.Internal, core.EntityDisabled, core.QuotaExceeded, core.LockLost, core.NotFound,
	// core.Unauthorized and so on. Default core.Busy.
	Code core.Code
	// Done says that the operation takes effect all the same: the client gets a failure instead of the
	// answer, as when a connection breaks at the wrong moment.
	Done bool
	// Delay is how long the operation waits before. With OnlyDelay nothing fails.
	Delay     time.Duration
	OnlyDelay bool
	// Skip is how many operations pass before, and Times how many are met; 0 is one.
	Skip, Times int
}

// Inject has a fault happen to clients of this namespace. Faults are tried in the order in which they
// were injected; one that has been met as often as it says is gone.
func (b *Bus) Inject(f Fault) {
	if f.Code == "" {
		f.Code = core.Busy
	}
	f.Times = max(f.Times, 1)
	b.gateway.faults.add(b.identity[0].NamespaceID, f)
}

// ExpectFaultsMet fails the test if an injected fault has not happened as often as it says.
func (b *Bus) ExpectFaultsMet() {
	b.tb.Helper()
	for _, f := range b.gateway.faults.left(b.identity[0].NamespaceID) {
		b.tb.Errorf("a fault was not met %d times: %+v", f.Times, f)
	}
}

// faults is the broker, with faults that happen in front of it.
type faults struct {
	core.Broker

	mu    sync.Mutex
	byBus map[string][]*Fault // by the namespace's ID
}

func newFaults(b core.Broker) *faults { return &faults{Broker: b, byBus: map[string][]*Fault{}} }

func (x *faults) add(namespace string, f Fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byBus[namespace] = append(x.byBus[namespace], &f)
}

func (x *faults) left(namespace string) (all []Fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.byBus[namespace] {
		all = append(all, *f)
	}
	return all
}

// none reports whether nothing fails in the client's namespace.
func (x *faults) none(id core.Identity) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.byBus[id.NamespaceID()]) == 0
}

// meet finds the fault that an operation meets, and waits for its delay. It returns nil for none.
func (x *faults) meet(ctx context.Context, id core.Identity, op Operation, address string) *Fault {
	f := x.next(id.NamespaceID(), op, address)
	if f == nil || f.Delay == 0 {
		return f
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return f
}

func (x *faults) next(namespace string, op Operation, address string) *Fault {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, f := range x.byBus[namespace] {
		switch {
		case f.Operation != op || f.Entity != "" && core.FoldName(f.Entity) != core.FoldName(address):
			continue
		case f.Skip > 0:
			f.Skip--
			return nil
		}
		met := *f
		if f.Times--; f.Times == 0 {
			x.byBus[namespace] = append(x.byBus[namespace][:i:i], x.byBus[namespace][i+1:]...)
		}
		return &met
	}
	return nil
}

// failure is what a client is told in place of an answer; nil: nothing fails.
func (f *Fault) failure() error {
	if f == nil || f.OnlyDelay {
		return nil
	}
	return core.Refuse(f.Code, "A fault that the test has injected (%s).", f.Code)
}

// before reports whether the operation fails without taking effect.
func (f *Fault) before() bool { return f.failure() != nil && !f.Done }

// OpenSender implements core.Broker.
func (x *faults) OpenSender(ctx context.Context, id core.Identity, address string, closed func(error)) (core.Sender, error) {
	s, err := x.Broker.OpenSender(ctx, id, address, closed)
	if err != nil {
		return nil, err
	}
	return &faultySender{s, x, id, address}, nil
}

// faultySender is a sender whose calls may meet faults.
type faultySender struct {
	core.Sender
	faults  *faults
	id      core.Identity
	address string
}

// Send implements core.Sender.
func (s *faultySender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	if s.faults.none(s.id) {
		return s.Sender.Send(ctx, groups)
	}
	answers := make([]core.Appended, len(groups))
	for i := range groups { // one by one, so that a fault meets as many messages as it says
		f := s.faults.meet(ctx, s.id, Send, s.address)
		if !f.before() {
			answers[i] = s.Sender.Send(ctx, groups[i:i+1])[0]
		}
		if err := f.failure(); err != nil {
			answers[i] = core.Appended{Err: err}
		}
	}
	return answers
}

// Settle implements core.Broker.
func (x *faults) Settle(ctx context.Context, id core.Identity, address string, settlements []core.Settlement) []error {
	if x.none(id) {
		return x.Broker.Settle(ctx, id, address, settlements)
	}
	errs := make([]error, len(settlements))
	for i := range settlements {
		f := x.meet(ctx, id, Settle, address)
		if !f.before() {
			errs[i] = x.Broker.Settle(ctx, id, address, settlements[i:i+1])[0]
		}
		if err := f.failure(); err != nil {
			errs[i] = err
		}
	}
	return errs
}

// Renew implements core.Broker.
func (x *faults) Renew(ctx context.Context, id core.Identity, address string, tokens []core.LockToken) []core.Renewal {
	if x.none(id) {
		return x.Broker.Renew(ctx, id, address, tokens)
	}
	renewals := make([]core.Renewal, len(tokens))
	for i := range tokens {
		f := x.meet(ctx, id, Renew, address)
		if !f.before() {
			renewals[i] = x.Broker.Renew(ctx, id, address, tokens[i:i+1])[0]
		}
		if err := f.failure(); err != nil {
			renewals[i] = core.Renewal{Err: err}
		}
	}
	return renewals
}

// OpenReceiver implements core.Broker.
func (x *faults) OpenReceiver(ctx context.Context, id core.Identity, address string, o core.ReceiverOptions) (core.Receiver, error) {
	if err := x.meet(ctx, id, Receive, address).failure(); err != nil {
		return nil, err
	}
	return x.Broker.OpenReceiver(ctx, id, address, o)
}

// AcceptSession implements core.Broker.
func (x *faults) AcceptSession(ctx context.Context, id core.Identity, address string, o core.SessionOptions) (core.Session, error) {
	if err := x.meet(ctx, id, AcceptSession, address).failure(); err != nil {
		return nil, err
	}
	return x.Broker.AcceptSession(ctx, id, address, o)
}

// Peek implements core.Broker.
func (x *faults) Peek(ctx context.Context, id core.Identity, address string, from int64, limit int) ([]core.Delivery, error) {
	if err := x.meet(ctx, id, Peek, address).failure(); err != nil {
		return nil, err
	}
	return x.Broker.Peek(ctx, id, address, from, limit)
}
