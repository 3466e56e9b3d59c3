package topics

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// Cache caches a topic's subscriptions. It reads them again only when it knows that they have
// changed. This is safe, because the store refuses a publication with outdated subscriptions.
type Cache struct {
	*entity.Namespace

	current atomic.Pointer[Subscriptions]
	stale   atomic.Bool
	sweptAt atomic.Int64  // when BeginSweep last returned true, in Unix nanoseconds
	reading chan struct{} // has one element while a call reads or changes current
}

func NewCache(n *entity.Namespace) *Cache {
	return &Cache{Namespace: n, reading: make(chan struct{}, 1)}
}

func (h *Cache) MarkStale() { h.stale.Store(true) }

const minSweepInterval = time.Second

// BeginSweep returns true if no sweep has begun within minSweepInterval.
func (h *Cache) BeginSweep() bool {
	now, swept := time.Now().UnixNano(), h.sweptAt.Load()
	return now-swept >= int64(minSweepInterval) && h.sweptAt.CompareAndSwap(swept, now)
}

// Subscriptions returns the subscriptions of the topic v, from the cache unless they may have
// changed. It returns NotFound if the topic was deleted.
func (h *Cache) Subscriptions(ctx context.Context, v *entity.View) (*Subscriptions, error) {
	if ss := h.current.Load(); ss != nil && !h.stale.Load() {
		return ss, nil
	}
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return nil, entity.ErrTimeout
	}
	old := h.current.Load()
	if old != nil && !h.stale.Swap(false) { // another call has read them meanwhile
		return old, nil
	}
	ss, err := h.read(ctx, v, old)
	if err != nil {
		h.stale.Store(true)
		return nil, err
	}
	h.current.Store(ss)
	return ss, nil
}

func (h *Cache) NoteOutdated(ss *Subscriptions) {
	if h.current.Load() == ss {
		h.stale.Store(true)
	}
}

// ApplyRule applies this gateway's change to a rule of sub, so that the subscriptions need not be
// read again. version is the topic's new version, and r the compiled rule, or nil if the rule was
// removed. A cache without the previous version stays outdated.
func (h *Cache) ApplyRule(sub core.Entity, version int64, name string, r *rules.Rule) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	default: // another call is reading them
		return
	}
	old := h.current.Load()
	if old == nil || old.Version != version-1 {
		return
	}
	i := slices.IndexFunc(old.members, func(m member) bool { return m.ID == sub.ID })
	if i < 0 || old.members[i].err != nil {
		return
	}
	book := old.members[i].rules
	if was := book.get(name); was != nil && !old.set.Remove(i, was) || r != nil && !old.set.Add(i, r) {
		return
	}
	book.set(name, r)
	ss := &Subscriptions{Version: version, members: slices.Clone(old.members), set: old.set, uncompiled: old.uncompiled}
	ss.members[i].View = h.View(sub)
	h.current.Store(ss)
	h.stale.Store(false)
}

// read reuses members of old that have not changed.
func (h *Cache) read(ctx context.Context, v *entity.View, old *Subscriptions) (*Subscriptions, error) {
	t, err := h.Store.Topic(ctx, h.ID, v.Name)
	if err == nil && t.ID != v.ID {
		err = core.NotFound
	}
	if err != nil {
		return nil, h.Refusal(err, &v.Entity)
	}
	if old != nil && old.Version == t.Version {
		return old, nil
	}
	ss := &Subscriptions{Version: t.Version, members: make([]member, len(t.Subscriptions))}
	compiled := make([][]*rules.Rule, len(t.Subscriptions))
	known := map[string]member{}
	if old != nil {
		for _, m := range old.members {
			known[m.ID] = m
		}
	}
	for i := range t.Subscriptions {
		m, ok := known[t.Subscriptions[i].ID]
		if !ok || m.Revision != t.Subscriptions[i].Revision {
			m = h.newMember(t.Subscriptions[i])
		}
		ss.members[i], compiled[i] = m, m.rules.all()
		if m.err != nil {
			ss.uncompiled = append(ss.uncompiled, i)
		}
	}
	ss.set = rules.NewSet(compiled)
	return ss, nil
}

// Rules are compiled before they are stored, but a gateway of another version may have stored a
// rule that this one cannot compile. Then every message counts as failed for this subscription.
func (h *Cache) newMember(ent core.Entity) member {
	stored := ent.Rules
	ent.Rules = nil
	m := member{View: h.View(ent), rules: &compiledRules{byName: make(map[string]*rules.Rule, len(stored))}}
	for _, r := range stored {
		c, err := rules.Compile(r)
		if err != nil {
			h.Log.Error("cannot compile a stored rule, so every message counts as failed for the subscription: replace the rule", "entity", ent.Name, "rule", r.Name, "err", err)
			m.err = err
			continue
		}
		m.rules.set(r.Name, c)
	}
	return m
}
