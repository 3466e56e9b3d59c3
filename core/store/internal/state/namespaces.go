package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (c *catalogue) CreateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	n.Revision = 0
	return c.changeNamespace(ctx, "create", n, func(_ core.Namespace, taken bool) error {
		if taken {
			return core.AlreadyExists
		}
		return nil
	})
}

func (c *catalogue) UpdateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	return c.changeNamespace(ctx, "update", n, func(old core.Namespace, known bool) error {
		switch {
		case !known:
			return core.NotFound
		case old.ID != n.ID || old.Revision != n.Revision:
			return core.Conflict
		}
		return nil
	})
}

// changeNamespace stores n with the next revision, unless refuse returns an error. refuse gets the
// stored namespace of that name.
func (c *catalogue) changeNamespace(ctx context.Context, verb string, n core.Namespace, refuse func(core.Namespace, bool) error) (core.Namespace, error) {
	n = cloneNamespace(n)
	n.Revision++
	err := c.change(ctx, func() ([]entityKey, error) {
		old, known := c.namespaces[core.FoldName(n.Name)]
		if err := refuse(old, known); err != nil {
			return nil, err
		}
		c.note(Effect{Kind: EffectNamespace, Object: &n})
		c.putNamespace(n)
		return []entityKey{keyOf("", n.Name)}, nil
	})
	if err != nil {
		return core.Namespace{}, fmt.Errorf("cannot %s namespace %s: %w", verb, n.Name, err)
	}
	return cloneNamespace(n), nil
}

// c.mu is held.
func (c *catalogue) putNamespace(n core.Namespace) {
	if c.namespaces == nil {
		c.namespaces = make(map[string]core.Namespace)
	}
	c.namespaces[core.FoldName(n.Name)] = n
}

func (c *catalogue) Namespace(_ context.Context, name string) (core.Namespace, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n, ok := c.namespaces[core.FoldName(name)]
	if !ok {
		return core.Namespace{}, fmt.Errorf("cannot read namespace %s: %w", name, core.NotFound)
	}
	return cloneNamespace(n), nil
}

func (c *catalogue) Namespaces(_ context.Context, after string, top int) ([]core.Namespace, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := slices.Sorted(maps.Keys(c.namespaces))
	first, found := slices.BinarySearch(names, core.FoldName(after))
	if found {
		first++
	}
	var ns []core.Namespace
	for _, name := range names[first:min(first+max(top, 0), len(names))] {
		ns = append(ns, cloneNamespace(c.namespaces[name]))
	}
	return ns, nil
}

func (c *catalogue) WatchNamespaces(changed func(name string)) (stop func()) {
	return c.changes.Add(struct{}{}, func(namespace, name string) {
		if namespace == "" {
			changed(name)
		}
	})
}

func cloneNamespace(n core.Namespace) core.Namespace {
	n.Hosts, n.Policies = slices.Clone(n.Hosts), slices.Clone(n.Policies)
	return n
}

// sealLife is how long an ID stays refused after its namespace was deleted. By then, all calls that
// began before the deletion have ended.
const sealLife = time.Hour

const removalStep = 100

// DeleteNamespace removes the namespace and, in the same step, forbids new entities in it. It
// removes the entities in the background, in steps, so that other calls need not wait long for the
// catalogue.
func (s *Store) DeleteNamespace(ctx context.Context, name string) error {
	now := s.millis()
	err := s.change(ctx, func() ([]entityKey, error) {
		key := keyOf("", name)
		n, ok := s.namespaces[key.folded]
		if !ok {
			return nil, core.NotFound
		}
		until := now - sealLife.Milliseconds()
		s.note(
			Effect{Kind: EffectNoNamespace, Text: n.Name},
			Effect{Kind: EffectUnseal, At: until},
			Effect{Kind: EffectSeal, Text: n.ID, At: now},
		)
		delete(s.namespaces, key.folded)
		s.sealed.forget(until)
		s.sealed.remember(n.ID, now)
		s.removeEntities(n.ID)
		return []entityKey{key}, nil
	})
	if err != nil {
		return fmt.Errorf("cannot delete namespace %s: %w", name, err)
	}
	return nil
}

func (s *Store) removeEntities(namespace string) {
	s.removals.Go(func() {
		for {
			changed := s.removeSome(namespace, removalStep)
			if changed == nil || s.stopped() != nil {
				return
			}
			s.catalogue.tell(changed)
		}
	})
}

func (s *Store) resumeRemovals() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for namespace := range s.sealed.known {
		if len(s.space(namespace).entities) > 0 {
			s.removeEntities(namespace)
		}
	}
}

// removeSome removes up to limit entities. It returns the changed ones, or nil if none was left.
func (c *catalogue) removeSome(namespace string, limit int) (changed []entityKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []entityKey
	var effects []Effect
	for folded, e := range c.space(namespace).entities {
		if e.Kind == core.Subscription {
			continue
		}
		keys, effects = append(keys, entityKey{namespace, folded}), append(effects, Effect{Kind: EffectNoEntity, Text: namespace, Folded: folded})
		if len(keys) == limit {
			break
		}
	}
	if keys == nil {
		return nil
	}
	c.note(effects...)
	for _, key := range keys {
		changed = append(changed, c.leave(key, 0)...)
	}
	return changed
}
