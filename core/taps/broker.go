package taps

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

// front is a core.Broker whose messages are shown.
type front struct {
	core.Broker
	taps *Taps
}

// Broker puts the taps in front of a broker.
func (s *Taps) Broker(b core.Broker) core.Broker { return &front{b, s} }

// entityOf is the folded name of the entity that an address names.
func entityOf(address string) string {
	if a, err := core.ParseAddress(address); err == nil {
		address = a.Entity
	}
	return core.FoldName(address)
}

// OpenSender implements core.Broker.
func (x *front) OpenSender(ctx context.Context, id core.Identity, address string, closed func(error)) (core.Sender, error) {
	s, err := x.Broker.OpenSender(ctx, id, address, closed)
	if err != nil {
		return nil, err
	}
	return &sender{s, x.taps, entityOf(address)}, nil
}

// sender is a sender whose messages are shown.
type sender struct {
	core.Sender
	taps   *Taps
	entity string
}

// Send implements core.Sender.
func (s *sender) Send(ctx context.Context, groups [][]*core.Message) []core.Appended {
	answers := s.Sender.Send(ctx, groups)
	if s.taps.open.Load() > 0 {
		for i, answer := range answers {
			if answer.Err == nil {
				s.taps.sent(s.entity, groups[i], answer.Numbers)
			}
		}
	}
	return answers
}

// Begin implements core.Transactions.
func (x *front) Begin() core.Transaction {
	if x.taps.open.Load() == 0 {
		return x.Broker.Begin()
	}
	return &transaction{Transaction: x.Broker.Begin(), taps: x.taps}
}

// transaction is a transaction whose messages are shown once it is committed.
type transaction struct {
	core.Transaction
	taps *Taps
	sent []sending
}

// sending is a group of messages of a transaction.
type sending struct {
	entity string
	group  []*core.Message
}

// Send implements core.Transaction.
func (t *transaction) Send(ctx context.Context, id core.Identity, address, via string, group []*core.Message) error {
	err := t.Transaction.Send(ctx, id, address, via, group)
	if err == nil {
		t.sent = append(t.sent, sending{entityOf(address), group})
	}
	return err
}

// Schedule implements core.Transaction.
func (t *transaction) Schedule(ctx context.Context, id core.Identity, address string, group []*core.Message) ([]int64, error) {
	numbers, err := t.Transaction.Schedule(ctx, id, address, group)
	if err == nil {
		t.sent = append(t.sent, sending{entityOf(address), group})
	}
	return numbers, err
}

// Commit implements core.Transaction.
func (t *transaction) Commit(ctx context.Context) error {
	err := t.Transaction.Commit(ctx)
	if err == nil {
		for _, s := range t.sent {
			t.taps.sent(s.entity, s.group, nil)
		}
	}
	return err
}
