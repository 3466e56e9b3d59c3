package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// subscriptionSet is a topic's subscriptions at one version, with compiled rules. It never changes,
// except that a set which differs from it by one rule shares its rules: the store refuses what is
// published with the older of the two.
type subscriptionSet struct {
	version    int64
	members    []member // in the order of the topic's view
	set        *rules.Set
	uncompiled []int // members with a rule that cannot be compiled
}

// member is a subscription of a subscriptionSet.
type member struct {
	*view
	rules *compiledRules
	err   error // why a rule could not be compiled
}

// compiledRules holds the compiled rules of a subscription.
type compiledRules struct {
	mu     sync.Mutex
	byName map[string]*rules.Rule // by folded name
}

// get returns the rule of that name, or nil.
func (b *compiledRules) get(name string) *rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byName[core.FoldName(name)]
}

// set replaces the rule of that name; nil removes it.
func (b *compiledRules) set(name string, r *rules.Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r == nil {
		delete(b.byName, core.FoldName(name))
	} else {
		b.byName[core.FoldName(name)] = r
	}
}

// all returns the rules by name.
func (b *compiledRules) all() []*rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*rules.Rule, 0, len(b.byName))
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		list = append(list, b.byName[name])
	}
	return list
}

// topicCache keeps a topic's subscriptions. The store refuses what is published with an old set, so
// the set is read again when it is known to have changed, never because of its age.
type topicCache struct {
	current      atomic.Pointer[subscriptionSet]
	stale        atomic.Bool
	sweptAt      atomic.Int64  // Unix nanoseconds of the last sweep of the subscriptions for room
	reading      chan struct{} // holds one while the subscription set is read
	filterCounts filterCounts
}

func newTopicCache() *topicCache { return &topicCache{reading: make(chan struct{}, 1)} }

// subscriptions returns the subscriptions of the topic, from the cache unless they are known to
// have changed.
func (e *entry) subscriptions(ctx context.Context) (*subscriptionSet, error) {
	h := e.topic
	if ss := h.current.Load(); ss != nil && !h.stale.Load() {
		return ss, nil
	}
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return nil, errTimeout
	}
	old := h.current.Load()
	if old != nil && !h.stale.Swap(false) { // another call has read it meanwhile
		return old, nil
	}
	ss, err := e.readSubscriptions(ctx, old)
	if err != nil {
		h.stale.Store(true)
		return nil, err
	}
	h.current.Store(ss)
	return ss, nil
}

// noteOutdated notes that the store knows a later version than that of ss.
func (e *entry) noteOutdated(ss *subscriptionSet) {
	if e.topic.current.Load() == ss {
		e.topic.stale.Store(true)
	}
}

// applyRule applies a change of a rule that this gateway has made, so that the subscriptions need
// not be read again. sub is the subscription after the change, version that of the topic, and r the
// compiled rule, nil if it was removed. If the cached set is not the one right before, it stays
// stale.
func (e *entry) applyRule(sub core.Entity, version int64, name string, r *rules.Rule) {
	h := e.topic
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	default: // another call is reading it
		return
	}
	old := h.current.Load()
	if old == nil || old.version != version-1 {
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
	ss := &subscriptionSet{version: version, members: slices.Clone(old.members), set: old.set, uncompiled: old.uncompiled}
	ss.members[i].view = e.b.newView(sub)
	h.current.Store(ss)
	h.stale.Store(false)
}

// readSubscriptions reads the subscriptions; members that have not changed since old are reused.
func (e *entry) readSubscriptions(ctx context.Context, old *subscriptionSet) (*subscriptionSet, error) {
	v := e.current.Load()
	t, err := e.b.store.Topic(ctx, e.b.namespace, v.Name)
	if err == nil && t.ID != v.ID {
		err = core.NotFound
	}
	if err != nil {
		if core.CodeOf(err) == core.NotFound {
			e.b.suspect(e)
		}
		return nil, e.b.refusal(err, &v.Entity)
	}
	if old != nil && old.version == t.Version {
		return old, nil
	}
	ss := &subscriptionSet{version: t.Version, members: make([]member, len(t.Subscriptions))}
	compiled := make([][]*rules.Rule, len(t.Subscriptions))
	known := old.byID()
	for i := range t.Subscriptions {
		m, ok := known[t.Subscriptions[i].ID]
		if !ok || m.Revision != t.Subscriptions[i].Revision {
			m = e.b.newMember(t.Subscriptions[i])
		}
		ss.members[i], compiled[i] = m, m.rules.all()
		if m.err != nil {
			ss.uncompiled = append(ss.uncompiled, i)
		}
	}
	ss.set = rules.NewSet(compiled)
	return ss, nil
}

func (ss *subscriptionSet) byID() map[string]member {
	if ss == nil {
		return nil
	}
	known := make(map[string]member, len(ss.members))
	for _, m := range ss.members {
		known[m.ID] = m
	}
	return known
}

// newMember compiles a subscription's rules. Each was compiled before it was stored. Should this
// version refuse one, the subscription treats every message as one whose evaluation failed.
func (b *Broker) newMember(ent core.Entity) member {
	stored := ent.Rules
	ent.Rules = nil
	m := member{view: b.newView(ent), rules: &compiledRules{byName: make(map[string]*rules.Rule, len(stored))}}
	for _, r := range stored {
		c, err := rules.Compile(r)
		if err != nil {
			b.log.Error("a stored rule cannot be compiled: replace it", "entity", ent.Name, "err", err)
			m.err = err
			continue
		}
		m.rules.set(r.Name, c)
	}
	return m
}

// matchEvents are the events that say which copies were made of a message, and by which rules.
func (ss *subscriptionSet) matchEvents(copies []core.Copy, m *core.Message, f rules.Facts) []core.Event {
	if len(copies) == 0 {
		return []core.Event{{Kind: core.EventUnmatched}}
	}
	known := ss.byID()
	events := make([]core.Event, 0, len(copies))
	for i := range copies {
		c := &copies[i]
		own := known[c.To.Subscription]
		if own.view == nil {
			continue
		}
		e := core.Event{Kind: core.EventMatched, Note: core.Note{Entity: own.Name}}
		if c.To.Sub == core.DeadLetter {
			e.Reason = reasonOf(c.Message.Properties)
		}
		if by, ok := c.Message.Properties.Get(rules.PropertyRuleName); ok && own.hasAction(by) {
			e.Rule, _ = by.(string)
		} else {
			e.Rule = own.matchingRules(m, f)
		}
		events = append(events, e)
	}
	return events
}

// hasAction reports whether the subscription has a rule of that name with an action.
func (m *member) hasAction(name any) bool {
	text, _ := name.(string)
	r := m.rules.get(text)
	return r != nil && r.Name() == text && r.HasAction()
}

// matchingRules names the subscription's rules without an action that match a message.
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
