package broker

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/topics"
)

const publishTries = 8

var errChanging = core.Refuse(core.Busy, "The subscriptions of the topic are changing. Please wait and try again.")

// publishAs publishes n groups to a partition of the topic. begin evaluates the groups from index
// first on, for the subscriptions a; it is called again if the store has a newer version of these.
func (e *entry) publishAs(ctx context.Context, p core.Partition, n int, begin func(a *topics.Subscriptions, first int) (*topics.Evaluation, error)) []core.Appended {
	var answers []core.Appended
	for range publishTries {
		a, err := e.subscriptions(ctx)
		if err != nil {
			return append(answers, failed(n-len(answers), err)...)
		}
		x, err := begin(a, len(answers))
		for err == nil && len(answers) < n {
			answers, err = publishNext(ctx, p, a.Version, x, answers)
		}
		switch {
		case err == nil:
			return answers
		case core.CodeOf(err) != core.Conflict:
			return append(answers, failed(n-len(answers), err)...)
		}
		e.topic.NoteOutdated(a)
	}
	return append(answers, failed(n-len(answers), errChanging)...)
}

// publishNext publishes the next groups. A non-nil err is the result of all groups after these,
// which must not be stored before an earlier group that may be sent again.
func publishNext(ctx context.Context, p core.Partition, version int64, x *topics.Evaluation, answers []core.Appended) ([]core.Appended, error) {
	groups, err := x.Next(ctx)
	if err != nil {
		return answers, err
	}
	defer x.Release()
	got := p.Publish(ctx, version, groups)
	for i := range got {
		if core.CodeOf(got[i].Err) == core.Conflict {
			return append(answers, got[:i]...), got[i].Err
		}
	}
	last := got[len(got)-1].Err
	if answers == nil {
		answers = got
	} else {
		answers = append(answers, got...)
	}
	if code := core.CodeOf(last); code.Retriable() || code == core.NotFound {
		return answers, core.CertainlyNotDone(last)
	}
	return answers, nil
}

func (e *entry) subscriptions(ctx context.Context) (*topics.Subscriptions, error) {
	ss, err := e.topic.Subscriptions(ctx, e.View())
	if core.CodeOf(err) == core.NotFound {
		e.Suspect()
	}
	return ss, err
}

func (e *entry) publish(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message) []core.Appended {
	answers := e.publishOnce(ctx, trail, v, partition, groups)
	e.makeRoom(ctx, trail, v, partition, groups, answers)
	e.wakeForScheduled(groups)
	return answers
}

func (e *entry) publishOnce(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message) []core.Appended {
	return e.publishAs(ctx, v.Queues[core.Main][partition], len(groups), func(a *topics.Subscriptions, first int) (*topics.Evaluation, error) {
		return e.b.evaluator.Begin(ctx, a, v, partition, groups[first:], trail)
	})
}

func (e *entry) wakeForScheduled(groups [][]*core.Message) {
	now := time.Time{}
	for _, g := range groups {
		for _, m := range g {
			if m.ScheduledEnqueueTime.IsZero() {
				continue
			}
			if now.IsZero() {
				now = e.b.store.Now()
			}
			if m.ScheduledEnqueueTime.After(now) {
				e.b.forwarders.MessagesAdded(e.View(), core.Main)
				return
			}
		}
	}
}

// makeRoom sweeps the subscriptions, and publishes again the groups for which the topic was full.
// Nothing else sweeps a subscription without receivers.
func (e *entry) makeRoom(ctx context.Context, trail *audit.Trail, v *entity.View, partition uint16, groups [][]*core.Message, answers []core.Appended) {
	var full []int
	for i := range answers {
		if core.CodeOf(answers[i].Err) == core.QuotaExceeded {
			full = append(full, i)
		}
	}
	if len(full) == 0 || !e.sweepSubscriptions(ctx, partition) {
		return
	}
	again := make([][]*core.Message, len(full))
	for i, at := range full {
		again[i] = groups[at]
	}
	for i, answer := range e.publishOnce(ctx, trail, v, partition, again) {
		answers[full[i]] = answer
	}
}

func (e *entry) sweepSubscriptions(ctx context.Context, partition uint16) bool {
	if !e.topic.BeginSweep() {
		return false
	}
	a, err := e.subscriptions(ctx)
	if err != nil {
		return false
	}
	queues := a.Queues(partition)
	entity.InParallel(len(queues), func(i int) {
		_, _ = queues[i].Sweep(ctx) // the next publication returns the error
	})
	return true
}

func (e *entry) PublishDue(ctx context.Context, p core.Partition, ds []core.Delivery) []core.Appended {
	v := e.View()
	trail := e.audit.Begin(core.Party{}, "")
	judged := e.b.store.Now()
	answers := e.publishAs(ctx, p, len(ds), func(a *topics.Subscriptions, first int) (*topics.Evaluation, error) {
		return e.b.evaluator.BeginDue(ctx, a, v, p.Index, ds[first:], trail)
	})
	for i := range answers {
		if answers[i].Err == nil {
			trail.Published(p, judged, &ds[i])
		}
	}
	return answers
}

// Deposit stores messages from another broker, in order, and returns one result for each. A queue
// or topic gets them as if a client had sent them; a subscription gets them whatever its rules.
// Dead letters keep their reasons. A message whose Transit.Key is known is not stored again.
// Duplicate detection does not apply, because the other broker may have two messages with one id.
// Deposit requires the Manage right.
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
		return nil, core.Refuse(core.NotAllowed, "'%s' does not accept messages: specify a queue, a topic, a subscription or a dead-letter queue.", a)
	case a.Sub == core.Main && v.Kind != core.Subscription:
		s, err := b.openSender(ctx, id, a, nil)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		s.moves = true
		return s.Send(ctx, groups), nil
	case a.Sub == core.Main && v.Settings.ForwardTo != "", a.Sub == core.DeadLetter && v.Settings.ForwardDeadLetteredMessagesTo != "":
		return nil, core.Refuse(core.NotAllowed, "'%s' forwards its messages: specify the entity to which it forwards.", a)
	}
	return e.deposit(ctx, v, a.Sub, groups), nil
}

func (e *entry) deposit(ctx context.Context, v *entity.View, sub core.SubQueue, groups [][]*core.Message) []core.Appended {
	answers := make([]core.Appended, len(groups))
	batches := make([]batch, len(v.Queues[sub]))
	for i, g := range groups {
		m := g[0]
		check := v.Admit
		if sub == core.DeadLetter {
			check = v.Check // dead letters do not expire, so the entity's default time to live does not apply
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
			key = m.Transit.Key // a repeated message must go to the partition that knows its key
		}
		batches[core.PartitionOf(key, len(batches))].add(g, i)
	}
	queues := v.WithDuplicates().Queues[sub] // duplicate detection would drop the second of two messages with one id
	for i := range batches {
		if len(batches[i].groups) == 0 {
			continue
		}
		for j, answer := range queues[i].Append(ctx, batches[i].groups) {
			answer.Err = e.b.ns.Refusal(answer.Err, &v.Entity)
			answers[batches[i].at[j]] = answer
		}
	}
	return answers
}
