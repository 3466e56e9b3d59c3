package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// registry implements core.Namespaces except DeleteNamespace.
type registry struct {
	mu      sync.RWMutex
	byName  map[string]core.Namespace
	ledger  ledger
	changes hooks[struct{}, func(name string)]
}

func (r *registry) CreateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	n = cloneNamespace(n)
	n.Revision = 1
	end, ok := r.enter(n)
	if !ok {
		return core.Namespace{}, fmt.Errorf("cannot create namespace %s: %w", n.Name, core.AlreadyExists)
	}
	r.tell(n.Name)
	if err := r.ledger.wait(ctx, end); err != nil {
		return core.Namespace{}, fmt.Errorf("cannot create namespace %s: %w", n.Name, err)
	}
	return cloneNamespace(n), nil
}

func (r *registry) enter(n core.Namespace) (end Position, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	folded := core.FoldName(n.Name)
	if _, taken := r.byName[folded]; taken {
		return 0, false
	}
	end = r.ledger.note(Effect{Kind: EffectNamespace, Object: &n})
	r.put(n)
	return end, true
}

// r.mu is held.
func (r *registry) put(n core.Namespace) {
	if r.byName == nil {
		r.byName = make(map[string]core.Namespace)
	}
	r.byName[core.FoldName(n.Name)] = n
}

func (r *registry) Namespace(_ context.Context, name string) (core.Namespace, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n, ok := r.byName[core.FoldName(name)]
	if !ok {
		return core.Namespace{}, fmt.Errorf("namespace %s: %w", name, core.NotFound)
	}
	return cloneNamespace(n), nil
}

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

func (r *registry) UpdateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	n = cloneNamespace(n)
	end, err := r.replace(&n)
	if err == nil {
		r.tell(n.Name)
		err = r.ledger.wait(ctx, end)
	}
	if err != nil {
		return core.Namespace{}, fmt.Errorf("cannot update namespace %s: %w", n.Name, err)
	}
	return cloneNamespace(n), nil
}

func (r *registry) replace(n *core.Namespace) (end Position, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.byName[core.FoldName(n.Name)]
	switch {
	case !ok:
		return 0, core.NotFound
	case old.ID != n.ID || old.Revision != n.Revision:
		return 0, core.Conflict
	}
	n.Revision++
	end = r.ledger.note(Effect{Kind: EffectNamespace, Object: n})
	r.put(*n)
	return end, nil
}

func (r *registry) WatchNamespaces(changed func(name string)) (stop func()) {
	return r.changes.add(struct{}{}, changed)
}

// tell calls the watchers without r.mu, so that they can call the registry.
func (r *registry) tell(name string) {
	for _, f := range r.changes.of(struct{}{}) {
		(*f)(core.FoldName(name))
	}
}

func cloneNamespace(n core.Namespace) core.Namespace {
	n.Hosts, n.Policies = slices.Clone(n.Hosts), slices.Clone(n.Policies)
	return n
}

// sealLife is how long an ID stays refused after its namespace was deleted. By then, all calls that
// began before the deletion have ended.
const sealLife = time.Hour

const removalStep = 100

// DeleteNamespace removes the entities in the background, in steps, so that other calls need not
// wait long for the catalogue.
func (s *Store) DeleteNamespace(ctx context.Context, name string) error {
	id, end, ok := s.takeNamespace(name, s.millis())
	if !ok {
		return fmt.Errorf("cannot delete namespace %s: %w", name, core.NotFound)
	}
	s.removeEntities(id)
	s.registry.tell(name)
	if err := s.wait(ctx, end); err != nil {
		return fmt.Errorf("cannot delete namespace %s: %w", name, err)
	}
	return nil
}

// takeNamespace removes the namespace and, in the same step, forbids new entities in it.
func (s *Store) takeNamespace(name string, now int64) (id string, end Position, ok bool) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	n, ok := s.byName[core.FoldName(name)]
	if !ok {
		return "", 0, false
	}
	s.catalogue.mu.Lock()
	defer s.catalogue.mu.Unlock()
	until := now - sealLife.Milliseconds()
	end = s.catalogue.ledger.note(
		Effect{Kind: EffectNoNamespace, Text: n.Name},
		Effect{Kind: EffectUnseal, At: until},
		Effect{Kind: EffectSeal, Text: n.ID, At: now},
	)
	delete(s.byName, core.FoldName(name))
	s.sealed.forget(until)
	s.sealed.remember(n.ID, now)
	return n.ID, end, true
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
	s.catalogue.mu.RLock()
	defer s.catalogue.mu.RUnlock()
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
	c.ledger.note(effects...)
	for _, key := range keys {
		changed = append(changed, c.leave(key, 0)...)
	}
	return changed
}

func (t *txn) isFull() bool { return t.MaxBytes > 0 && t.bytes >= t.MaxBytes }

func (t *txn) full() error {
	return core.Refuse(core.QuotaExceeded,
		"The maximum entity size has been reached or exceeded. Size of entity in bytes: %d, max entity size in bytes: %d.",
		t.bytes, t.MaxBytes)
}
