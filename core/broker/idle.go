package broker

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	touchInterval = 30 * time.Second
	openInterval  = 10 * time.Minute // longest interval for an entity with an open receiver
	idleRetry     = time.Minute
)

// touch records in the store when entities were last used. An open receiver counts as a use, and is
// recorded often enough that no other gateway deletes the entity.
func (b *Broker) touch(ctx context.Context) {
	var entries []*entry
	now := b.store.Now()
	for _, e := range b.known() {
		if e.receivers.HasReceivers() {
			e.Use()
			if now.Sub(time.UnixMilli(e.recorded.Load())) < min(openInterval, e.View().Settings.AutoDeleteOnIdle/5) {
				continue
			}
		}
		entries = append(entries, e)
	}
	b.touchEntries(ctx, entries)
}

func (b *Broker) touchEntries(ctx context.Context, entries []*entry) {
	accessed := map[string]time.Time{}
	for _, e := range entries {
		if used := e.used.Load(); used > e.recorded.Swap(used) {
			accessed[e.key] = time.UnixMilli(used)
		}
	}
	var err error
	if len(accessed) > 0 {
		err = b.store.TouchEntities(ctx, b.ns.ID, accessed)
	}
	if err != nil {
		b.log.Warn("cannot record when entities were last used; trying again later", "err", err)
	}
	for _, e := range entries {
		if err != nil {
			e.recorded.Store(0)
		} else {
			e.recording.Store(false)
		}
	}
}

// walkForIdle is walk for calls that are made regularly: it also notes when the next of the entities
// can be idle.
func (b *Broker) walkForIdle(ctx context.Context, visit func(*core.Entity)) error {
	next := never
	err := b.walk(ctx, func(ent *core.Entity) {
		next = earlier(next, idleFrom(ent))
		visit(ent)
	})
	if err == nil {
		b.nextIdle.Store(&next)
	}
	return err
}

// deleteIdle deletes the entities that are idle, and notes when the next can be. An entity that is
// created, changed or used later can be idle only after another core.MinAutoDeleteOnIdle.
func (b *Broker) deleteIdle(ctx context.Context) {
	now, next := b.store.Now(), never
	var listed []core.Entity
	err := b.walk(ctx, func(ent *core.Entity) {
		if at := idleFrom(ent); at.After(now) {
			next = earlier(next, at)
		} else {
			listed = append(listed, *ent)
		}
	})
	if err != nil {
		b.log.Warn("cannot list idle entities; trying again later", "err", err)
	}
	if err != nil || len(listed) > 0 {
		next = earlier(next, now.Add(idleRetry))
	}
	b.nextIdle.Store(&next)
	for i := range listed {
		b.deleteIfIdle(ctx, &listed[i])
	}
}

func (b *Broker) deleteIfIdle(ctx context.Context, listed *core.Entity) {
	// Another gateway may have recorded a use after the list was read.
	ent, err := b.store.Entity(ctx, b.ns.ID, listed.Name)
	if err != nil || ent.ID != listed.ID || idleFrom(&ent).After(b.store.Now()) {
		return
	}
	t := b.countEntities(ctx, ent)[0]
	if t.err != nil || t.sums[core.Main].Scheduled > 0 || t.sums[core.Transfer].Ready+t.sums[core.Transfer].Locked > 0 {
		return
	}
	if err := b.store.DeleteEntity(ctx, b.ns.ID, ent.Name); err != nil {
		b.log.Warn("cannot delete an idle entity; trying again later", "entity", ent.Name, "err", err)
		return
	}
	b.log.Info("deleted an idle entity", "entity", ent.Name, "idle", ent.Settings.AutoDeleteOnIdle)
	b.forgetDeleted(&ent)
}

// never is later than any clock shows.
var never = time.Unix(1<<40, 0)

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// idleFrom returns when an entity is deleted if nobody uses it until then.
func idleFrom(e *core.Entity) time.Time {
	if e.Settings.AutoDeleteOnIdle == core.Forever {
		return never
	}
	last := slices.MaxFunc([]time.Time{e.AccessedAt, e.CreatedAt, e.UpdatedAt}, time.Time.Compare)
	return last.Add(e.Settings.AutoDeleteOnIdle)
}
