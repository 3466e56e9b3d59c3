package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

// catalogue has the namespaces and entities. Its mu is locked before a partition's mu, never after
// it. So a change of subscriptions can update the topic's partitions in the same step.
type catalogue struct {
	ledger
	mu         sync.RWMutex
	namespaces map[string]core.Namespace // by lower-case name
	spaces     map[string]*space
	sealed     seenIDs
	partitions map[string][]*partition // by the ID of the queue or topic
	topics     map[string]*topic
	rules      map[string]ruleBook
	changes    wake.Hooks[struct{}, func(namespace, name string)] // has its own mutex
	remembered remembered                                         // needs no mutex
}

// entityKey identifies an entity or, without a namespace, the namespace with that lower-case name.
type entityKey struct{ namespace, folded string }

func keyOf(namespace, name string) entityKey { return entityKey{namespace, core.FoldName(name)} }

type space struct {
	entities  map[string]core.Entity
	names     [core.Schedule + 1]sortedNames // by kind
	megabytes int64                          // sum of Entity.Megabytes
}

// subscriptions returns the names of the subscriptions of a topic.
func (x *space) subscriptions(topic string) sortedNames {
	names, prefix := x.names[core.Subscription], core.FoldName(core.SubscriptionPath(topic, ""))
	first, _ := slices.BinarySearch(names, prefix)
	end, _ := slices.BinarySearch(names, prefix+"\xff")
	return names[first:end]
}

type sortedNames []string

func (n *sortedNames) add(name string) {
	if at, known := slices.BinarySearch(*n, name); !known {
		*n = slices.Insert(*n, at, name)
	}
}

func (n *sortedNames) remove(name string) {
	if at, known := slices.BinarySearch(*n, name); known {
		*n = slices.Delete(*n, at, at+1)
	}
}

func page[T any](all []T, skip, top int) []T {
	all = all[min(max(skip, 0), len(all)):]
	return all[:min(max(top, 0), len(all))]
}

// c.mu is held.
func (c *catalogue) space(namespace string) *space {
	if x := c.spaces[namespace]; x != nil {
		return x
	}
	return &space{}
}

// c.mu is held.
func (c *catalogue) find(key entityKey) (core.Entity, bool) {
	e, ok := c.space(key.namespace).entities[key.folded]
	return e, ok
}

// c.mu is held.
func (c *catalogue) put(key entityKey, e core.Entity) {
	if c.spaces == nil {
		c.spaces = make(map[string]*space)
	}
	x := c.spaces[key.namespace]
	if x == nil {
		x = &space{entities: make(map[string]core.Entity)}
		c.spaces[key.namespace] = x
	}
	old := x.entities[key.folded] // the zero Entity has 0 megabytes
	x.entities[key.folded] = e
	x.names[e.Kind].add(key.folded)
	if e.Kind != core.Subscription {
		x.megabytes += e.Megabytes() - old.Megabytes()
	}
}

// c.mu is held.
func (c *catalogue) drop(key entityKey) {
	x := c.space(key.namespace)
	if e, ok := x.entities[key.folded]; ok {
		delete(x.entities, key.folded)
		x.names[e.Kind].remove(key.folded)
		if e.Kind != core.Subscription {
			x.megabytes -= e.Megabytes()
		}
	}
	if len(x.entities) == 0 {
		delete(c.spaces, key.namespace)
	}
}

func (c *catalogue) CreateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	e = cloneEntity(e)
	e.Revision = 1
	err := c.change(ctx, func() ([]entityKey, error) { return c.create(e, q) })
	if err != nil {
		return core.Entity{}, fmt.Errorf("cannot create entity %s: %w", &e, err)
	}
	return cloneEntity(described(e)), nil
}

// change runs f, which returns the entities that it has changed, and tells the watchers. It returns
// when the changes are durable. After an error it waits, too: changes by other calls may be the
// cause.
func (c *catalogue) change(ctx context.Context, f func() ([]entityKey, error)) error {
	c.mu.Lock()
	changed, err := f()
	end := c.end()
	c.mu.Unlock()
	c.tell(changed)
	return cmp.Or(c.wait(ctx, end), err)
}

// c.mu is held.
func (c *catalogue) create(e core.Entity, q core.NamespaceQuotas) ([]entityKey, error) {
	if _, taken := c.find(keyOf(e.Namespace, e.Name)); taken {
		return nil, core.AlreadyExists
	}
	if _, deleted := c.sealed.known[e.Namespace]; deleted || e.Kind == core.Subscription && c.topics[e.TopicID] == nil {
		return nil, core.NotFound
	}
	if x := c.space(e.Namespace); e.Kind != core.Subscription && (q.MaxEntities > 0 && len(x.names[core.Queue])+len(x.names[core.Topic]) >= q.MaxEntities || exceeds(x.megabytes, &e, q)) {
		return nil, core.QuotaExceeded
	}
	version := c.versionAfter(&e)
	effects := []Effect{{Kind: EffectEntity, Number: version, Object: new(described(e))}}
	if e.Kind == core.Subscription {
		effects = append(effects, Effect{Kind: EffectRules, Text: e.ID, Object: &e.Rules})
		c.setRules(e.ID, e.Rules)
	}
	c.note(effects...)
	return c.enter(described(e), version), nil
}

// enter stores e. For a subscription, version is the new version of its topic. c.mu is held.
func (c *catalogue) enter(e core.Entity, version int64) (changed []entityKey) {
	key := keyOf(e.Namespace, e.Name)
	_, known := c.find(key)
	c.put(key, e)
	if e.Kind == core.Subscription {
		t := c.topics[e.TopicID]
		t.version = version
		for i, p := range c.partitions[e.TopicID] {
			p.subscribe(e.Ref(uint16(i), core.Main), version)
		}
		return []entityKey{key, t.key}
	}
	if known {
		return []entityKey{key}
	}
	if c.partitions == nil {
		c.partitions = make(map[string][]*partition)
		c.topics = make(map[string]*topic)
	}
	partitions := make([]*partition, e.Partitions)
	for i := range partitions {
		r := e.Ref(uint16(i), core.Main)
		p := &partition{entityID: r.Entity, index: r.Index, journal: c.journal, remembered: &c.remembered, version: version}
		p.own = &entityState{partition: p, ref: r}
		partitions[i] = p
	}
	c.partitions[e.ID] = partitions
	if e.Kind == core.Topic {
		c.topics[e.ID] = &topic{key: key, version: version}
	}
	return []entityKey{key}
}

func (c *catalogue) Entity(_ context.Context, namespace, name string) (core.Entity, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.find(keyOf(namespace, name))
	if !ok {
		return core.Entity{}, fmt.Errorf("cannot read entity %s/%s: %w", namespace, name, core.NotFound)
	}
	return cloneEntity(e), nil
}

func (c *catalogue) Entities(_ context.Context, namespace string, l core.Listing, skip, top int) ([]core.Entity, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := c.space(namespace).names[l.Kind]
	if l.Kind == core.Subscription {
		names = c.space(namespace).subscriptions(l.Topic)
	}
	return c.list(namespace, page(names, skip, top)), nil
}

func (c *catalogue) list(namespace string, names []string) []core.Entity {
	entities := make([]core.Entity, len(names))
	for i, name := range names {
		e, _ := c.find(entityKey{namespace, name})
		entities[i] = cloneEntity(e)
	}
	return entities
}

func exceeds(others int64, e *core.Entity, q core.NamespaceQuotas) bool {
	return q.MaxSizeMegabytes > 0 && others+e.Megabytes() > q.MaxSizeMegabytes
}

func (c *catalogue) UpdateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	e = described(cloneEntity(e))
	if _, err := c.update(ctx, &e, q, nil); err != nil {
		return core.Entity{}, fmt.Errorf("cannot update entity %s: %w", &e, err)
	}
	return cloneEntity(e), nil
}

// If rule is not nil and the entity has rules, update also changes one rule.
func (c *catalogue) update(ctx context.Context, e *core.Entity, q core.NamespaceQuotas, rule *core.RuleChange) (version int64, err error) {
	err = c.change(ctx, func() ([]entityKey, error) {
		old, ok := c.find(keyOf(e.Namespace, e.Name))
		switch {
		case !ok:
			return nil, core.NotFound
		case old.ID != e.ID || old.Revision != e.Revision:
			return nil, core.Conflict
		}
		grows := e.Kind != core.Subscription && e.Megabytes() > old.Megabytes()
		if grows && exceeds(c.space(e.Namespace).megabytes-old.Megabytes(), e, q) {
			return nil, core.QuotaExceeded
		}
		e.Revision++
		if old.AccessedAt.After(e.AccessedAt) {
			e.AccessedAt = old.AccessedAt
		}
		version = c.versionAfter(e)
		effects := []Effect{{Kind: EffectEntity, Number: version, Object: e}}
		if _, known := c.rules[e.ID]; rule != nil && known {
			effects = append(effects, Effect{Kind: EffectRule, Text: e.ID, Object: rule})
			c.changeRule(e.ID, *rule)
		}
		c.note(effects...)
		return c.enter(*e, version), nil
	})
	return version, err
}

func (c *catalogue) DeleteEntity(ctx context.Context, namespace, name string) error {
	err := c.change(ctx, func() ([]entityKey, error) {
		key := keyOf(namespace, name)
		e, ok := c.find(key)
		if !ok {
			return nil, core.NotFound
		}
		version := c.versionAfter(&e)
		c.note(Effect{Kind: EffectNoEntity, Text: key.namespace, Folded: key.folded, Number: version})
		return c.leave(key, version), nil
	})
	if err != nil {
		return fmt.Errorf("cannot delete entity %s/%s: %w", namespace, name, err)
	}
	return nil
}

// versionAfter returns the version of a subscription's topic after a change of the subscription, or
// 0 if e is not a subscription.
func (c *catalogue) versionAfter(e *core.Entity) int64 {
	if t := c.topics[e.TopicID]; t != nil {
		return t.version + 1
	}
	return 0
}

// leave removes an entity and its subscriptions. The topic of a subscription gets version.
func (c *catalogue) leave(key entityKey, version int64) []entityKey {
	e, ok := c.find(key)
	if !ok {
		return nil
	}
	c.drop(key)
	if e.Kind == core.Subscription {
		t := c.topics[e.TopicID]
		delete(c.rules, e.ID)
		t.version = version
		for i, p := range c.partitions[e.TopicID] {
			p.unsubscribe(e.Ref(uint16(i), core.Main), version)
		}
		return []entityKey{key, t.key}
	}
	for _, p := range c.partitions[e.ID] {
		p.drop()
	}
	delete(c.partitions, e.ID)
	changed := []entityKey{key}
	if t := c.topics[e.ID]; t != nil {
		for _, folded := range slices.Clone(c.space(key.namespace).subscriptions(key.folded)) {
			subscription := entityKey{key.namespace, folded}
			e, _ := c.find(subscription)
			delete(c.rules, e.ID)
			c.drop(subscription)
			changed = append(changed, subscription)
		}
		delete(c.topics, e.ID)
	}
	return changed
}

// TouchEntities does not change revisions, and ignores unknown names.
func (c *catalogue) TouchEntities(ctx context.Context, namespace string, accessed map[string]time.Time) error {
	return c.change(ctx, func() ([]entityKey, error) {
		for name, at := range accessed {
			key := keyOf(namespace, name)
			e, ok := c.find(key)
			if at = core.Instant(at.UnixMilli()); ok && at.After(e.AccessedAt) {
				e.AccessedAt = at
				version := int64(0)
				if e.Kind == core.Subscription {
					version = c.topics[e.TopicID].version
				}
				c.note(Effect{Kind: EffectEntity, Number: version, Object: &e})
				c.put(key, e)
			}
		}
		return nil, nil
	})
}

func (c *catalogue) WatchEntities(changed func(namespace, name string)) (stop func()) {
	return c.changes.Add(struct{}{}, func(namespace, name string) {
		if namespace != "" {
			changed(namespace, name)
		}
	})
}

// tell calls the watchers without c.mu, so that they can call the catalogue.
func (c *catalogue) tell(changed []entityKey) {
	for _, f := range c.changes.Of(struct{}{}) {
		for _, key := range changed {
			(*f)(key.namespace, key.folded)
		}
	}
}

func (c *catalogue) partition(r core.Ref) *partition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ps := c.partitions[r.Entity]; int(r.Index) < len(ps) {
		return ps[r.Index]
	}
	return nil
}

func cloneEntity(e core.Entity) core.Entity {
	e.Settings.AuthorizationRules = slices.Clone(e.Settings.AuthorizationRules)
	e.Rules = slices.Clone(e.Rules)
	for i := range e.Rules {
		e.Rules[i] = cloneRule(e.Rules[i])
	}
	if e.Schedule != nil {
		e.Schedule = new(*e.Schedule)
	}
	return e
}
