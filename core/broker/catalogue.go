package broker

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type entityCache struct {
	mu      sync.RWMutex
	entries map[string]*entry
	closed  bool
	dirty   wake.Signal
}

// entity returns a fresh entity from the cache, or reads it from the store. A missing entity is not
// cached: each call for it asks the store.
func (b *Broker) entity(ctx context.Context, name string) (*entry, error) {
	b.mu.RLock()
	e, closed := b.entries[core.FoldName(name)], b.closed
	b.mu.RUnlock()
	switch {
	case closed:
		return nil, entity.ErrStopping
	case e == nil:
		return b.load(ctx, name)
	default:
		return b.refresh(ctx, e)
	}
}

func (b *Broker) find(ctx context.Context, name string) (*entity.View, error) {
	e, err := b.entity(ctx, name)
	if err != nil {
		return nil, err
	}
	return e.View(), nil
}

// refresh reads the entity of e again if it may be outdated, and returns e or a new entry. While
// another call reads it, or the store does not answer, refresh returns e as it is.
func (b *Broker) refresh(ctx context.Context, e *entry) (*entry, error) {
	now := time.Now()
	if e.fresh(now) || !e.refreshing.CompareAndSwap(false, true) {
		return e, nil
	}
	defer e.refreshing.Store(false)
	e.dirty.Store(false)
	newer, err := b.load(ctx, e.View().Name)
	if err != nil && core.CodeOf(err) != core.NotFound {
		e.dirty.Store(true)
		return e, nil
	}
	return newer, err
}

func (b *Broker) load(ctx context.Context, name string) (*entry, error) {
	known := b.cached(name)
	now := time.Now()
	ent, err := b.store.Entity(ctx, b.ns.ID, name)
	if core.CodeOf(err) == core.NotFound || ent.Kind == core.Schedule {
		b.forget(known)
		return nil, b.notFoundIn(ctx, name)
	}
	if err != nil {
		return nil, b.ns.Refusal(err, &core.Entity{Name: name})
	}
	return b.keep(ent, now)
}

func (b *Broker) notFoundIn(ctx context.Context, name string) error {
	refusal := b.ns.NotFound(name)
	topic, _, ok := core.SplitSubscription(name)
	if !ok {
		return refusal
	}
	if v, err := b.find(ctx, topic); err == nil && v.Kind == core.Topic {
		return &core.Refusal{Code: core.NotFound, Text: core.TextOf(refusal), Topic: v.Name}
	}
	return refusal
}

func (b *Broker) cached(name string) *entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.entries[core.FoldName(name)]
}

// keep caches an entity that was read from the store at the time now, unless the cache has one with
// the same name that was created later.
func (b *Broker) keep(ent core.Entity, now time.Time) (*entry, error) {
	key := core.FoldName(ent.Name)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, entity.ErrStopping
	}
	e := b.entries[key]
	if e != nil {
		switch known := e.View(); {
		case known.ID == ent.ID:
			b.mu.Unlock()
			e.update(ent, now)
			return e, nil
		case known.CreatedAt.After(ent.CreatedAt):
			b.mu.Unlock()
			return e, nil
		}
	}
	replaced := e
	e = newEntry(b, ent, now)
	b.entries[key] = e
	b.mu.Unlock()
	if replaced != nil {
		replaced.end(b.ns.NotFound(ent.Name))
	}
	return e, nil
}

// forget removes e, whose entity was deleted, and closes what is open on it. e may be nil.
func (b *Broker) forget(e *entry) {
	if e == nil {
		return
	}
	b.mu.Lock()
	if b.entries[e.key] == e {
		delete(b.entries, e.key)
	}
	b.mu.Unlock()
	e.end(b.ns.NotFound(e.View().Name))
}

func (b *Broker) forgetDeleted(ent *core.Entity) {
	if e := b.cached(ent.Name); e != nil && e.View().ID == ent.ID {
		b.forget(e)
	}
}

func (b *Broker) entityChanged(namespace, name string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	switch {
	case namespace == "" && name == "":
		for _, e := range b.entries {
			e.changed()
		}
	case namespace != b.ns.ID:
		return
	case b.entries[name] != nil:
		b.entries[name].changed()
	}
	b.forwarders.Changed(name)
	b.scheduler.note(name)
	b.dirty.Set()
}

// refreshDirty reads outdated entities with open senders or receivers, so that these notice
// changes; others are read at their next use. It reports whether the store has answered for all.
func (b *Broker) refreshDirty(ctx context.Context) bool {
	var dirty []*entry
	b.mu.RLock()
	for _, e := range b.entries {
		if e.dirty.Load() {
			dirty = append(dirty, e)
		}
	}
	b.mu.RUnlock()
	all := true
	for _, e := range dirty {
		if !e.inUse() {
			continue
		}
		_, _ = b.refresh(ctx, e) // after NotFound, refresh has closed the senders and receivers
		all = all && !e.dirty.Load()
	}
	return all
}

const listPage = 100

// walk visits all queues, topics and subscriptions of the namespace.
func (b *Broker) walk(ctx context.Context, visit func(*core.Entity)) error {
	var inner error
	err := b.eachQueueAndTopic(ctx, func(ent *core.Entity) {
		visit(ent)
		if ent.Kind == core.Topic && inner == nil {
			inner = b.walkListing(ctx, core.Listing{Kind: core.Subscription, Topic: ent.Name}, visit)
		}
	})
	return cmp.Or(err, inner)
}

func (b *Broker) eachQueueAndTopic(ctx context.Context, visit func(*core.Entity)) error {
	err := b.walkListing(ctx, core.Listing{Kind: core.Queue}, visit)
	if err != nil {
		return err
	}
	return b.walkListing(ctx, core.Listing{Kind: core.Topic}, visit)
}

func (b *Broker) walkListing(ctx context.Context, l core.Listing, visit func(*core.Entity)) error {
	return core.EachEntity(listPage, func(skip int) ([]core.Entity, error) {
		return b.store.Entities(ctx, b.ns.ID, l, skip, listPage)
	}, func(_ int, e *core.Entity) { visit(e) })
}
