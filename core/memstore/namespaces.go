package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// registry keeps the namespaces that were made at run time.
type registry struct {
	mu      sync.RWMutex
	byName  map[string]core.Namespace // by folded name
	changes hooks[struct{}, func(name string)]
}

// CreateNamespace stores a new namespace.
func (r *registry) CreateNamespace(_ context.Context, n core.Namespace) (core.Namespace, error) {
	n = cloneNamespace(n)
	n.Revision = 1
	if !r.enter(n) {
		return core.Namespace{}, fmt.Errorf("create namespace %s: %w", n.Name, core.AlreadyExists)
	}
	r.tell(n.Name)
	return cloneNamespace(n), nil
}

// enter adds a namespace unless its name is taken.
func (r *registry) enter(n core.Namespace) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	folded := core.FoldName(n.Name)
	if _, taken := r.byName[folded]; taken {
		return false
	}
	if r.byName == nil {
		r.byName = make(map[string]core.Namespace)
	}
	r.byName[folded] = n
	return true
}

// Namespace returns the namespace of that name, or NotFound.
func (r *registry) Namespace(_ context.Context, name string) (core.Namespace, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n, ok := r.byName[core.FoldName(name)]
	if !ok {
		return core.Namespace{}, fmt.Errorf("namespace %s: %w", name, core.NotFound)
	}
	return cloneNamespace(n), nil
}

// Namespaces lists those behind after by folded name, at most top.
func (r *registry) Namespaces(_ context.Context, after string, top int) ([]core.Namespace, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := slices.Sorted(maps.Keys(r.byName))
	first, found := slices.BinarySearch(names, core.FoldName(after))
	if found {
		first++
	}
	var ns []core.Namespace
	for _, name := range names[first:min(first+max(top, 0), len(names))] {
		ns = append(ns, cloneNamespace(r.byName[name]))
	}
	return ns, nil
}

// UpdateNamespace replaces a namespace if its ID and revision are still those of n.
func (r *registry) UpdateNamespace(_ context.Context, n core.Namespace) (core.Namespace, error) {
	n = cloneNamespace(n)
	if err := r.replace(&n); err != nil {
		return core.Namespace{}, fmt.Errorf("update namespace %s: %w", n.Name, err)
	}
	r.tell(n.Name)
	return cloneNamespace(n), nil
}

func (r *registry) replace(n *core.Namespace) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.byName[core.FoldName(n.Name)]
	switch {
	case !ok:
		return core.NotFound
	case old.ID != n.ID || old.Revision != n.Revision:
		return core.Conflict
	}
	n.Revision++
	r.byName[core.FoldName(n.Name)] = *n
	return nil
}

// take removes a namespace and returns its ID; ok is false if there is none.
func (r *registry) take(name string) (id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.byName[core.FoldName(name)]
	delete(r.byName, core.FoldName(name))
	return n.ID, ok
}

// WatchNamespaces calls changed after a namespace was created, updated or deleted.
func (r *registry) WatchNamespaces(changed func(name string)) (stop func()) {
	return r.changes.add(struct{}{}, changed)
}

// tell tells the watchers. r.mu is not held.
func (r *registry) tell(name string) {
	for _, f := range r.changes.of(struct{}{}) {
		(*f)(core.FoldName(name))
	}
}

// cloneNamespace keeps the caller's slices and the registry's apart.
func cloneNamespace(n core.Namespace) core.Namespace {
	n.Hosts, n.Policies = slices.Clone(n.Hosts), slices.Clone(n.Policies)
	return n
}

// sealLife is how long the ID of a deleted namespace is known as such: a caller that
// has begun to create an entity in it has ended by then.
const sealLife = time.Hour

// removalStep is how many entities of a deleted namespace are removed at a time.
const removalStep = 100

// DeleteNamespace takes a namespace out of the registry. Its entities are removed
// meanwhile, some at a time, so that no other call waits long for the catalogue.
func (s *Store) DeleteNamespace(_ context.Context, name string) error {
	id, ok := s.take(name)
	if !ok {
		return fmt.Errorf("delete namespace %s: %w", name, core.NotFound)
	}
	s.seal(id, s.millis())
	s.removals.Go(func() {
		for {
			changed := s.removeSome(id, removalStep)
			if changed == nil {
				return
			}
			s.catalogue.tell(changed)
		}
	})
	s.registry.tell(name)
	return nil
}

// seal refuses to create an entity in a deleted namespace.
func (c *catalogue) seal(namespace string, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed.forget(now - sealLife.Milliseconds())
	c.sealed.first(namespace, now)
}

// removeSome removes up to limit queues and topics of a namespace, and returns
// what watchers are to be told of: nil if there are none left.
func (c *catalogue) removeSome(namespace string, limit int) (changed []entityKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for folded, e := range c.space(namespace).entities {
		if e.Kind == core.Subscription {
			continue // it goes with its topic
		}
		changed = append(changed, c.removeLocked(entityKey{namespace, folded})...)
		if limit--; limit == 0 {
			break
		}
	}
	return changed
}
