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

// count sums the entity's counts by sub-queue, over the partitions that answer;
// err joins what the others said.
func (b *Broker) count(ctx context.Context, e *core.Entity) (sums [2]core.Stats, err error) {
	v := newView(*e)
	type answer struct {
		stats core.Stats
		err   error
	}
	answers := make([]answer, 2*e.Partitions)
	inParallel(len(answers), func(i int) {
		a := &answers[i]
		a.stats, a.err = b.store.Stats(ctx, v.partitions[i%2][i/2])
	})
	for i, a := range answers {
		if a.err != nil {
			err = errors.Join(err, a.err)
			continue
		}
		sums[i%2].Add(a.stats)
	}
	return sums, err
}

// runtime is what administration shows of an entity's counts.
func (b *Broker) runtime(ctx context.Context, e *core.Entity) core.Runtime {
	sums, err := b.count(ctx, e)
	main, dead := sums[core.Main], sums[core.DeadLetter]
	r := core.Runtime{
		Active:       main.Ready + main.Locked + main.Deferred,
		Scheduled:    main.Scheduled,
		DeadLetter:   dead.Ready + dead.Locked + dead.Deferred,
		Bytes:        main.Bytes + dead.Bytes,
		Availability: "Available",
	}
	if err != nil && core.CodeOf(err) != core.NotFound {
		r.Availability = "Limited"
	}
	return r
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
