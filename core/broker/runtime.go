package broker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pipeline"
)

func counted(k core.Kind) []core.SubQueue {
	if k == core.Topic {
		return []core.SubQueue{core.Main, core.Transfer, core.TransferDeadLetter}
	}
	return []core.SubQueue{core.Main, core.DeadLetter, core.Transfer, core.TransferDeadLetter}
}

// entityCount has sums over the partitions that answered, by sub-queue, and the others' errors.
type entityCount struct {
	sums [core.SubQueues]core.Stats
	err  error
}

func (b *Broker) countEntities(ctx context.Context, es ...core.Entity) []entityCount {
	type place struct {
		entity int
		sub    core.SubQueue
	}
	var places []place
	var ps []core.Partition
	for i := range es {
		for _, sub := range counted(es[i].Kind) {
			for index := range es[i].Partitions {
				places = append(places, place{i, sub})
				ps = append(ps, b.ns.Partition(&es[i], uint16(index), sub))
			}
		}
	}
	counts := make([]entityCount, len(es))
	for i, c := range b.store.StatsOf(ctx, ps) {
		t := &counts[places[i].entity]
		if c.Err != nil {
			t.err = errors.Join(t.err, c.Err)
			continue
		}
		t.sums[places[i].sub].Add(c.Stats)
	}
	return counts
}

func (b *Broker) runtimes(ctx context.Context, es ...core.Entity) []core.Runtime {
	shown := make([]core.Runtime, len(es))
	counts := b.countEntities(ctx, es...)
	var topics []int
	for i := range es {
		shown[i] = counts[i].asRuntime()
		shown[i].Applied = b.applied(&es[i])
		if e := b.cached(es[i].Name); e != nil {
			t := e.trafficNow()
			shown[i].Consumers = t.Queues[core.Main].Receivers + t.Sessions
		}
		if es[i].Kind == core.Topic && counts[i].err == nil {
			topics = append(topics, i)
		}
	}
	entity.InParallel(len(topics), func(i int) {
		at := topics[i]
		counts[at].err = b.countRules(ctx, &es[at], &shown[at])
	})
	for i := range es {
		if err := counts[i].err; err != nil && core.CodeOf(err) != core.NotFound {
			shown[i].Availability = "Limited"
		}
	}
	return shown
}

func (t *entityCount) asRuntime() core.Runtime {
	held := func(sub core.SubQueue) int64 { return t.sums[sub].Ready + t.sums[sub].Locked + t.sums[sub].Deferred }
	r := core.Runtime{
		Active:             held(core.Main),
		Locked:             t.sums[core.Main].Locked,
		Deferred:           t.sums[core.Main].Deferred,
		Scheduled:          t.sums[core.Main].Scheduled,
		DeadLetter:         held(core.DeadLetter),
		Transfer:           held(core.Transfer),
		TransferDeadLetter: held(core.TransferDeadLetter),
		Enqueued:           t.sums[core.Main].Enqueued,
		Bytes:              t.sums[core.Main].Bytes,
		Availability:       "Available",
	}
	for i := range t.sums {
		r.Damaged += t.sums[i].Damaged
	}
	return r
}

// As in Service Bus, filters that match all or nothing count as SQL filters.
func (b *Broker) countRules(ctx context.Context, topic *core.Entity, r *core.Runtime) error {
	t, err := b.store.Topic(ctx, b.ns.ID, topic.Name)
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

func (b *Broker) healthy(ctx context.Context, e *core.Entity) error {
	err := b.countEntities(ctx, *e)[0].err
	if err == nil || core.CodeOf(err) == core.NotFound {
		return nil
	}
	b.log.Warn("a partition does not answer", "entity", e.Name, "err", err)
	return core.Refuse(core.Busy, "A partition of '%s' does not answer. Please wait and try again.", e.Name)
}

// Health probes the store. Calls that come during a probe get its result.
func (b *Broker) Health(ctx context.Context) (core.About, error) {
	answer := make(chan singleflight.Result, 1)
	if !b.goOpen(func() {
		about, err, _ := b.probe.Do("", b.runProbe)
		answer <- singleflight.Result{Val: about, Err: err}
	}) {
		return core.About{}, entity.ErrStopping
	}
	select {
	case r := <-answer:
		return r.Val.(core.About), r.Err
	case <-ctx.Done():
		return core.About{}, context.Cause(ctx)
	}
}

func (b *Broker) runProbe() (any, error) {
	ctx, cancel := context.WithTimeout(b.base, probeTimeout)
	defer cancel()
	if err := b.store.Probe(ctx); err != nil {
		return core.About{}, err
	}
	return b.store.About(ctx), nil
}

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

const (
	oldestBytes = 64 << 10
	// oldestLook is how many messages are read to find the oldest one that is not scheduled.
	oldestLook = 8
)

// Holding has the contents of an entity at one moment, as the store counts them for all gateways.
type Holding struct {
	Entity   string
	Kind     core.Kind
	Sessions bool
	Counts   [core.SubQueues]core.Stats
	// Oldest is when the oldest message of the main queue, except scheduled ones, was enqueued. It
	// is zero if there is none, or if large messages would have to be read to find it.
	Oldest  time.Time
	Applied core.Applied
}

// Holdings counts the contents of the entities for which wanted returns true. An entity that is
// deleted meanwhile is empty. If a partition does not answer, the call fails.
func (b *Broker) Holdings(ctx context.Context, wanted func(name string, k core.Kind) bool) ([]Holding, error) {
	var ents []core.Entity
	err := b.walk(ctx, func(e *core.Entity) {
		if wanted(e.Name, e.Kind) {
			ents = append(ents, *e)
		}
	})
	if err != nil {
		return nil, err
	}
	all := make([]Holding, len(ents))
	errs := make([]error, len(ents))
	counts := b.countEntities(ctx, ents...)
	entity.InParallel(len(ents), func(i int) { all[i], errs[i] = b.holding(ctx, &ents[i], &counts[i]) })
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

func (b *Broker) Holding(ctx context.Context, name string) (Holding, error) {
	v, err := b.find(ctx, name)
	if err != nil {
		return Holding{}, err
	}
	h, err := b.holding(ctx, &v.Entity, &b.countEntities(ctx, v.Entity)[0])
	return h, b.ns.Refusal(err, &v.Entity)
}

func (b *Broker) holding(ctx context.Context, e *core.Entity, t *entityCount) (Holding, error) {
	h := Holding{Entity: e.Name, Kind: e.Kind, Sessions: e.Settings.RequiresSession, Counts: t.sums}
	h.Applied = b.applied(e)
	if t.err != nil && core.CodeOf(t.err) != core.NotFound {
		return h, t.err
	}
	main := &h.Counts[core.Main]
	there := main.Ready + main.Locked + main.Deferred
	if there == 0 || e.Kind == core.Topic { // a topic has only scheduled messages and messages that are being published
		return h, nil
	}
	look := int(min(oldestBytes*(there+main.Scheduled)/max(main.Bytes, 1), oldestLook))
	for i := range e.Partitions {
		if look == 0 {
			break
		}
		ds, err := b.ns.Partition(e, uint16(i), core.Main).In(b.store).Peek(ctx, core.PeekRequest{Max: look})
		if err != nil {
			return h, err
		}
		for _, d := range ds {
			if d.State != core.Scheduled {
				if h.Oldest.IsZero() || d.EnqueuedTime.Before(h.Oldest) {
					h.Oldest = d.EnqueuedTime
				}
				break
			}
		}
	}
	return h, nil
}

type Count struct {
	Name string
	Kind core.Kind
	core.Runtime
}

// Counts counts the contents of entities with one call to the store. It leaves out entities that
// are missing, or whose partitions do not all answer, and does not count as a use of them.
func (b *Broker) Counts(ctx context.Context, names []string) []Count {
	var ents []core.Entity
	for _, name := range names {
		if v, err := b.find(ctx, name); err == nil {
			ents = append(ents, v.Entity)
		}
	}
	var all []Count
	for i, c := range b.countEntities(ctx, ents...) {
		if c.err == nil {
			all = append(all, Count{ents[i].Name, ents[i].Kind, c.asRuntime()})
		}
	}
	return all
}

// CountSessions counts up to most sessions that have messages or state. Unlike ListSessions, it
// does not count as a use of the entity.
func (b *Broker) CountSessions(ctx context.Context, name string, most int) (int, error) {
	v, err := b.find(ctx, name)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range v.Queues[core.Main] {
		if !p.Sessions {
			return 0, entity.ErrNoSessions
		}
		for l := (sessionList{p: p, more: true}); l.more && n < most; n += len(l.ids) {
			if err := l.fill(ctx); err != nil {
				return 0, b.ns.Refusal(err, &v.Entity)
			}
		}
	}
	return min(n, most), nil
}
