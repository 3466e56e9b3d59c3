package broker

import (
	"context"
	"errors"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// parallel is how many partitions are asked at a time for counts.
const parallel = 16

// inParallel calls f for 0..n-1, a bounded number at a time, and waits.
func inParallel(n int, f func(i int)) {
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// counted are the sub-queues of a kind that hold messages.
func counted(k core.Kind) []core.SubQueue {
	if k == core.Topic {
		return []core.SubQueue{core.Main, core.Transfer, core.TransferDeadLetter}
	}
	return []core.SubQueue{core.Main, core.DeadLetter, core.Transfer, core.TransferDeadLetter}
}

// count sums the entity's counts by sub-queue, over the partitions that answer;
// err joins what the others said.
func (b *Broker) count(ctx context.Context, e *core.Entity) (sums [core.SubQueues]core.Stats, err error) {
	v, subs := b.newView(*e), counted(e.Kind)
	type answer struct {
		stats core.Stats
		err   error
	}
	answers := make([]answer, len(subs)*e.Partitions)
	inParallel(len(answers), func(i int) {
		a := &answers[i]
		a.stats, a.err = b.store.Stats(ctx, v.partitions[subs[i%len(subs)]][i/len(subs)])
	})
	for i, a := range answers {
		if a.err != nil {
			err = errors.Join(err, a.err)
			continue
		}
		sums[subs[i%len(subs)]].Add(a.stats)
	}
	return sums, err
}

// runtime is what administration shows of an entity's counts.
func (b *Broker) runtime(ctx context.Context, e *core.Entity) core.Runtime {
	sums, err := b.count(ctx, e)
	held := func(sub core.SubQueue) int64 { return sums[sub].Ready + sums[sub].Locked + sums[sub].Deferred }
	r := core.Runtime{
		Active:             held(core.Main),
		Scheduled:          sums[core.Main].Scheduled,
		DeadLetter:         held(core.DeadLetter),
		Transfer:           held(core.Transfer),
		TransferDeadLetter: held(core.TransferDeadLetter),
		Enqueued:           sums[core.Main].Enqueued,
		Availability:       "Available",
	}
	for _, s := range sums {
		r.Bytes += s.Bytes
	}
	if e.Kind == core.Topic && err == nil {
		err = b.countRules(ctx, e, &r)
	}
	if err != nil && core.CodeOf(err) != core.NotFound {
		r.Availability = "Limited"
	}
	return r
}

// countRules counts a topic's subscriptions and their rules; the filters that
// match all or nothing are SQL filters to Service Bus.
func (b *Broker) countRules(ctx context.Context, topic *core.Entity, r *core.Runtime) error {
	t, err := b.store.Topic(ctx, b.namespace, topic.Name)
	if err != nil {
		return err
	}
	r.Subscriptions = len(t.Subscriptions)
	for i := range t.Subscriptions {
		for _, rule := range t.Subscriptions[i].Rules {
			if rule.Filter.Kind == core.CorrelationFilter {
				r.CorrelationFilters++
			} else {
				r.SQLFilters++
			}
		}
	}
	return nil
}

// healthy refuses when a partition of the entity does not answer.
func (b *Broker) healthy(ctx context.Context, e *core.Entity) error {
	_, err := b.count(ctx, e)
	if err == nil || core.CodeOf(err) == core.NotFound {
		return nil
	}
	b.log.Warn("a partition does not answer", "entity", e.Name, "err", err)
	return core.Refuse(core.Busy, "A partition of '%s' does not answer at the moment. Please wait and try again.", e.Name)
}
