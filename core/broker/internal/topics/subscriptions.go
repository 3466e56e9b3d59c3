package topics

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/audit"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// Subscriptions are a topic's subscriptions at one version, with compiled rules. They do not
// change, with one exception: two versions that differ in one rule share one Set. This is safe,
// because the store refuses publications with the older version.
type Subscriptions struct {
	Version    int64
	members    []member
	set        *rules.Set
	uncompiled []int
}

type member struct {
	*entity.View
	rules *compiledRules
	err   error
}

type compiledRules struct {
	mu     sync.Mutex
	byName map[string]*rules.Rule
}

func (b *compiledRules) get(name string) *rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byName[core.FoldName(name)]
}

// A nil r removes the rule.
func (b *compiledRules) set(name string, r *rules.Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r == nil {
		delete(b.byName, core.FoldName(name))
	} else {
		b.byName[core.FoldName(name)] = r
	}
}

func (b *compiledRules) all() []*rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*rules.Rule, 0, len(b.byName))
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		list = append(list, b.byName[name])
	}
	return list
}

// matched returns the event of the copy c of msg. by is the rule whose action has made it, or nil.
func (m *member) matched(c *core.Copy, by *rules.Rule, msg *core.Message, f rules.Facts) core.Event {
	e := core.Event{Kind: core.EventMatched, Note: core.Note{Entity: m.Name}}
	if c.To.Sub == core.DeadLetter {
		e.Reason = audit.ReasonOf(c.Message.Properties)
	}
	if by != nil {
		e.Rule = by.Name()
	} else {
		e.Rule = m.matchingRules(msg, f)
	}
	return e
}

func (m *member) matchingRules(msg *core.Message, f rules.Facts) string {
	var names []string
	for _, r := range m.rules.all() {
		if r.HasAction() {
			continue
		}
		if t, err := r.Matches(msg, f); err == nil && t == rules.True {
			names = append(names, r.Name())
		}
	}
	return strings.Join(names, ", ")
}

func (ss *Subscriptions) Queues(partition uint16) []core.Partition {
	ps := make([]core.Partition, len(ss.members))
	for i := range ss.members {
		ps[i] = ss.members[i].Queues[core.Main][partition]
	}
	return ps
}

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
