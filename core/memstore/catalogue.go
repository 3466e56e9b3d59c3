package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// catalogue keeps the entities and, by entity ID, their partitions.
type catalogue struct {
	mu         sync.RWMutex
	entities   map[entityKey]core.Entity
	partitions map[string][]*partition
	changes    hooks[struct{}, func(namespace, name string)] // guarded by itself
}

// entityKey is how an entity is looked up.
type entityKey struct{ namespace, folded string }

func keyOf(namespace, name string) entityKey { return entityKey{namespace, core.FoldName(name)} }

// CreateEntity stores a new entity and makes its partitions empty.
func (c *catalogue) CreateEntity(_ context.Context, e core.Entity) (core.Entity, error) {
	key := keyOf(e.Namespace, e.Name)
	e = cloneEntity(e)
	e.Revision = 1
	if !c.create(key, e) {
		return core.Entity{}, fmt.Errorf("create entity %s: %w", &e, core.AlreadyExists)
	}
	c.changed(key)
	return cloneEntity(e), nil
}

func (c *catalogue) create(key entityKey, e core.Entity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.entities[key]; taken {
		return false
	}
	if c.entities == nil {
		c.entities = make(map[entityKey]core.Entity)
		c.partitions = make(map[string][]*partition)
	}
	c.entities[key] = e
	partitions := make([]*partition, e.Partitions)
	for i := range partitions {
		partitions[i] = newPartition()
	}
	c.partitions[e.ID] = partitions
	return true
}

// Entity returns the entity of that name, or NotFound.
func (c *catalogue) Entity(_ context.Context, namespace, name string) (core.Entity, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entities[keyOf(namespace, name)]
	if !ok {
		return core.Entity{}, fmt.Errorf("entity %s/%s: %w", namespace, name, core.NotFound)
	}
	return cloneEntity(e), nil
}

// Entities lists a namespace by folded name, skipping skip, at most top.
func (c *catalogue) Entities(_ context.Context, namespace string, l core.Listing, skip, top int) ([]core.Entity, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var keys []entityKey
	for key := range c.entities {
		if key.namespace == namespace {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b entityKey) int { return cmp.Compare(a.folded, b.folded) })
	keys = keys[min(max(skip, 0), len(keys)):]
	keys = keys[:min(max(top, 0), len(keys))]
	entities := make([]core.Entity, len(keys))
	for i, key := range keys {
		entities[i] = cloneEntity(c.entities[key])
	}
	return entities, nil
}

// UpdateEntity replaces an entity if its ID and revision are still those of e.
func (c *catalogue) UpdateEntity(_ context.Context, e core.Entity) (core.Entity, error) {
	key := keyOf(e.Namespace, e.Name)
	e = cloneEntity(e)
	if err := c.update(key, &e); err != nil {
		return core.Entity{}, fmt.Errorf("update entity %s: %w", &e, err)
	}
	c.changed(key)
	return cloneEntity(e), nil
}

func (c *catalogue) update(key entityKey, e *core.Entity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.entities[key]
	switch {
	case !ok:
		return core.NotFound
	case old.ID != e.ID || old.Revision != e.Revision:
		return core.Conflict
	}
	e.Revision++
	if old.AccessedAt.After(e.AccessedAt) {
		e.AccessedAt = old.AccessedAt
	}
	c.entities[key] = *e
	return nil
}

// DeleteEntity removes the entity and all its messages, or NotFound.
func (c *catalogue) DeleteEntity(_ context.Context, namespace, name string) error {
	key := keyOf(namespace, name)
	partitions, ok := c.remove(key)
	if !ok {
		return fmt.Errorf("delete entity %s/%s: %w", namespace, name, core.NotFound)
	}
	for _, p := range partitions {
		p.drop()
	}
	c.changed(key)
	return nil
}

func (c *catalogue) remove(key entityKey) ([]*partition, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entities[key]
	if !ok {
		return nil, false
	}
	partitions := c.partitions[e.ID]
	delete(c.entities, key)
	delete(c.partitions, e.ID)
	return partitions, true
}

// TouchEntities records when entities were last used. Unknown names and times
// earlier than those known are ignored; the revision stays.
func (c *catalogue) TouchEntities(_ context.Context, namespace string, accessed map[string]time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, at := range accessed {
		key := keyOf(namespace, name)
		e, ok := c.entities[key]
		if at = instant(at.UnixMilli()); ok && at.After(e.AccessedAt) {
			e.AccessedAt = at
			c.entities[key] = e
		}
	}
	return nil
}

// WatchEntities calls changed after an entity was created, updated or deleted.
func (c *catalogue) WatchEntities(changed func(namespace, name string)) (stop func()) {
	return c.changes.add(struct{}{}, changed)
}

func (c *catalogue) changed(key entityKey) {
	for _, f := range c.changes.of(struct{}{}) {
		(*f)(key.namespace, key.folded)
	}
}

// partition returns the partition r lies in, or nil if there is none.
func (c *catalogue) partition(r core.Ref) *partition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ps := c.partitions[r.Entity]; int(r.Index) < len(ps) {
		return ps[r.Index]
	}
	return nil
}

// cloneEntity keeps the caller's slices and the catalogue's apart.
func cloneEntity(e core.Entity) core.Entity {
	e.Settings.AuthorizationRules = slices.Clone(e.Settings.AuthorizationRules)
	return e
}
