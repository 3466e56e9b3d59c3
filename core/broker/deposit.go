package broker

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Deposit stores messages that come from another broker, in order, and returns an element for each: nil
// once it is stored. A queue or topic gets them as if a client had sent them; a subscription without
// asking its rules; dead letters keep their reasons. A message whose Transit.Key is known is not stored
// again; ids of messages do not count, as the other broker may have two of one id. It needs Manage.
func (b *Broker) Deposit(ctx context.Context, id core.Identity, a core.Address, ms []*core.Message) ([]core.Appended, error) {
	e, err := b.access(ctx, id, core.Manage, a)
	if err != nil {
		return nil, err
	}
	groups := make([][]*core.Message, len(ms))
	for i := range ms {
		groups[i] = ms[i : i+1]
	}
	v := e.View()
	switch {
	case a.Management || a.Sub != core.Main && a.Sub != core.DeadLetter || a.Sub == core.DeadLetter && v.Kind == core.Topic:
		return nil, core.Refuse(core.NotAllowed, "'%s' takes no messages: name a queue, a topic, a subscription, or the dead-letter queue of one.", a)
	case a.Sub == core.Main && v.Kind != core.Subscription:
		s, err := b.openSender(ctx, id, a, nil)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		s.moves = true
		return s.Send(ctx, groups), nil
	case a.Sub == core.Main && v.Settings.ForwardTo != "", a.Sub == core.DeadLetter && v.Settings.ForwardDeadLetteredMessagesTo != "":
		return nil, core.Refuse(core.NotAllowed, "'%s' forwards its messages: name the entity that gets them.", a)
	}
	return e.deposit(ctx, v, a.Sub, groups), nil
}

// deposit appends messages to partitions of a sub-queue, or of a subscription.
func (e *entry) deposit(ctx context.Context, v *entity.View, sub core.SubQueue, groups [][]*core.Message) []core.Appended {
	answers := make([]core.Appended, len(groups))
	batches := make([]batch, len(v.Queues[sub]))
	for i, g := range groups {
		m := g[0]
		check := v.Admit
		if sub == core.DeadLetter {
			check = v.Check // dead letters do not expire
		}
		m.ScheduledEnqueueTime = time.Time{}
		if answers[i].Err = check(m); answers[i].Err != nil {
			continue
		}
		if sub == core.Main && v.Settings.RequiresSession && !m.HasSession() {
			answers[i].Err = entity.ErrNoSessionID
			continue
		}
		entity.Identify(g)
		key := entity.KeyOf(m, false)
		if key == "" && m.Transit != nil {
			key = m.Transit.Key // a repeated one finds the partition that knows the key
		}
		batches[core.PartitionOf(key, len(batches))].add(g, i)
	}
	queues := v.WithDuplicates().Queues[sub] // these ids may have been seen in the queue itself
	for i := range batches {
		if len(batches[i].groups) == 0 {
			continue
		}
		for j, answer := range queues[i].Append(ctx, batches[i].groups) {
			answer.Err = e.b.refusals.Of(answer.Err, &v.Entity)
			answers[batches[i].at[j]] = answer
		}
	}
	return answers
}
