package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

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
