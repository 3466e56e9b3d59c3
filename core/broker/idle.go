package broker

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const touchInterval = 30 * time.Second

// touch records in the store when entities were last used. An open receiver counts as a use.
func (b *Broker) touch(ctx context.Context) {
	entries := b.known()
	for _, e := range entries {
		if e.receivers.HasReceivers() {
			e.Use()
		}
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
	if len(accessed) == 0 {
		return
	}
	if err := b.store.TouchEntities(ctx, b.ns.ID, accessed); err != nil {
		b.log.Warn("cannot record when entities were last used; trying again later", "err", err)
		for _, e := range entries {
			e.recorded.Store(0)
		}
	}
}

func (b *Broker) deleteIdle(ctx context.Context) {
	var listed []core.Entity
	err := b.walk(ctx, func(ent *core.Entity) {
		if idle(ent, b.store.Now()) {
			listed = append(listed, *ent)
		}
	})
	if err != nil {
		b.log.Warn("cannot list idle entities; trying again later", "err", err)
	}
	for i := range listed {
		b.deleteIfIdle(ctx, &listed[i])
	}
}

func (b *Broker) deleteIfIdle(ctx context.Context, listed *core.Entity) {
	// Another gateway may have recorded a use after the list was read.
	ent, err := b.store.Entity(ctx, b.ns.ID, listed.Name)
	if err != nil || ent.ID != listed.ID || !idle(&ent, b.store.Now()) {
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

func idle(e *core.Entity, now time.Time) bool {
	if e.Settings.AutoDeleteOnIdle == core.Forever {
		return false
	}
	last := slices.MaxFunc([]time.Time{e.AccessedAt, e.CreatedAt, e.UpdatedAt}, time.Time.Compare)
	return now.Sub(last) >= e.Settings.AutoDeleteOnIdle
}
