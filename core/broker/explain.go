package broker

import (
	"cmp"
	"context"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

func (b *Broker) Explain(ctx context.Context, id core.Identity, address string, s core.Subject) (core.Account, error) {
	a, err := core.ParseAddress(address)
	if err != nil {
		return core.Account{}, b.ns.NotFound(address)
	}
	if err := authorize(id, a.Entity); err != nil {
		return core.Account{}, err
	}
	if s.MessageID == "" && s.Number <= 0 {
		return core.Account{}, core.Refuse(core.InvalidArgument, "The request names no message: specify the message by its id or its sequence number.")
	}
	e, err := b.entity(ctx, a.Entity)
	if err != nil {
		return core.Account{}, err
	}
	v := e.View()
	if e.audit == nil {
		return core.Account{}, core.Refuse(core.NotAllowed, "'%s' keeps no history of its messages: add the entity to the list 'explain' in the configuration of the gateway.", v.Name)
	}
	b.audit.Flush(ctx)
	found := make([][]core.Event, len(v.Queues[core.Main]))
	errs := make([]error, len(found))
	entity.InParallel(len(found), func(i int) {
		found[i], errs[i] = v.Queues[core.Main][i].Recollect(ctx, s)
	})
	if err := cmp.Or(errs...); err != nil {
		return core.Account{}, b.ns.Refusal(err, &v.Entity)
	}
	account := core.Account{Entity: v.Name, Kind: v.Kind, Events: audit.Merge(found)}
	account.Applied = b.applied(&v.Entity)
	if v.Kind == core.Topic {
		err = b.addUnmatched(ctx, &account, v)
	}
	return account, err
}

const maxUnmatched = 1000

func (b *Broker) addUnmatched(ctx context.Context, a *core.Account, topic *entity.View) error {
	var last core.Event
	id := ""
	for _, e := range a.Events {
		if e.Kind == core.EventMatched || e.Kind == core.EventUnmatched {
			last = e
		} else if !e.MessageID.IsZero() {
			id = e.MessageID.String()
		}
	}
	t, err := b.topic(ctx, topic.Name)
	if err != nil || last.Kind == "" {
		return err
	}
	var stored *core.Delivery
	var others []core.Entity
	for i, s := range t.Subscriptions {
		got := slices.ContainsFunc(a.Events, func(e core.Event) bool {
			return e.Kind == core.EventMatched && e.Number == last.Number && e.Entity == s.Name
		})
		if got && stored == nil {
			stored = b.copyOf(ctx, &t.Subscriptions[i], last.Number, id)
		} else if !got && !s.CreatedAt.After(last.Time) {
			others = append(others, s)
		}
	}
	for _, s := range others[:min(len(others), maxUnmatched)] {
		why := []string{"the rules cannot be tested, because no copy of the message is stored any more"}
		if stored != nil {
			why = b.evaluator.WhyNot(ctx, topic, stored, s.Rules)
		}
		a.Unmatched = append(a.Unmatched, core.Unmatched{Subscription: s.Name, Why: why})
	}
	return nil
}

// copyOf returns the copy, if it still exists, of the topic's message with this number and id.
func (b *Broker) copyOf(ctx context.Context, s *core.Entity, published int64, id string) *core.Delivery {
	partition, _ := core.SplitSequenceNumber(published)
	at := func(sub core.SubQueue) core.Partition { return b.ns.Partition(s, partition, sub).In(b.store) }
	events, _ := at(core.Main).Recollect(ctx, core.Subject{MessageID: id})
	var sub core.SubQueue
	var number int64
	for _, e := range events {
		if e.Kind == core.EventAccepted && e.Other == published {
			sub, number = e.Sub, e.Number
		} else if e.Kind == core.EventDeadLettered && e.Sub == sub && e.Number == number && e.Other != 0 {
			sub, number = sub.DeadLetters(), e.Other
		}
	}
	_, n := core.SplitSequenceNumber(number)
	if ds, _ := at(sub).Peek(ctx, core.PeekRequest{From: n, Max: 1}); len(ds) > 0 && ds[0].SequenceNumber == number {
		return &ds[0]
	}
	return nil
}
