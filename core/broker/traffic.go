package broker

import (
	"maps"
	"slices"

	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
)

// Traffic returns the traffic of the entities that this gateway has used, in no particular order.
func (b *Broker) Traffic() []entity.Traffic {
	entries := b.known()
	all := make([]entity.Traffic, len(entries))
	for i, e := range entries {
		all[i] = e.trafficNow()
	}
	return all
}

func (e *entry) trafficNow() entity.Traffic {
	v := e.View()
	t := entity.Traffic{
		Entity: v.Name, Kind: v.Kind,
		Accepted: e.traffic.Accepted.Load(), Absorbed: e.traffic.Absorbed.Load(), Cancelled: e.traffic.Cancelled.Load(),
	}
	for sub := range t.Queues {
		from, to := &e.traffic.Queues[sub], &t.Queues[sub]
		to.Delivered, to.LocksLost, to.Moved = from.Delivered.Load(), from.Lost.Load(), from.Moved.Load()
		for outcome := range to.Settled {
			to.Settled[outcome] = from.Settled[outcome].Load()
		}
	}
	e.mu.Lock()
	t.Senders = len(e.senders)
	e.mu.Unlock()
	e.receivers.Count(&t)
	return t
}

// Grown calls f for each entity whose messages this gateway has accepted, delivered, settled,
// cancelled or moved since the last call. accepted counts the messages stored since then. Only one
// goroutine may call Grown, and f must not call the broker.
func (b *Broker) Grown(f func(name string, accepted int64)) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, e := range b.entries {
		if sum := e.traffic.Sum(); e.seen.Swap(sum) != sum {
			accepted := e.traffic.Accepted.Load()
			f(e.View().Name, accepted-e.seenAccepted.Swap(accepted))
		}
	}
}

func (b *Broker) Stages() []pipeline.StageCounts {
	all := []pipeline.StageCounts{}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(b.entries)) {
		if p := b.entries[name].pipeline; p != nil {
			all = append(all, p.Counts()...)
		}
	}
	return all
}
