package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// audience is a topic's subscriptions at one version, with their rules made
// ready. It never changes, but for its rules, which one that differs by a rule
// shares: the store refuses what is published by the older one of the two.
type audience struct {
	version int64
	members []member // in the order of the topic's view
	set     *rules.Set
	broken  []int // members with a rule that cannot be compiled
}

// member is a subscription in an audience.
type member struct {
	*view
	rules *ruleBook
	err   error // why a rule could not be compiled
}

// ruleBook is the compiled rules of a subscription.
type ruleBook struct {
	mu     sync.Mutex
	byName map[string]*rules.Rule // by folded name
}

// get returns the rule of that name, or nil.
func (b *ruleBook) get(name string) *rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byName[core.FoldName(name)]
}

// set puts a rule in the place of the one of that name; nil removes it.
func (b *ruleBook) set(name string, r *rules.Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r == nil {
		delete(b.byName, core.FoldName(name))
	} else {
		b.byName[core.FoldName(name)] = r
	}
}

// all returns the rules by name.
func (b *ruleBook) all() []*rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*rules.Rule, 0, len(b.byName))
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		list = append(list, b.byName[name])
	}
	return list
}

// house is where a topic keeps its audience. What is published to an old one the
// store refuses, so it is read anew when it is known to have changed, and not by age.
type house struct {
	current atomic.Pointer[audience]
	stale   atomic.Bool
	swept   atomic.Int64  // Unix nanoseconds when the subscriptions were swept to make room
	door    chan struct{} // holds one while the audience is read
	census  census
}

func newHouse() *house { return &house{door: make(chan struct{}, 1)} }

// audience returns who gets what is published to the topic, as far as is known.
func (e *entry) audience(ctx context.Context) (*audience, error) {
	h := e.house
	if a := h.current.Load(); a != nil && !h.stale.Load() {
		return a, nil
	}
	select {
	case h.door <- struct{}{}:
		defer func() { <-h.door }()
	case <-ctx.Done():
		return nil, errTimeout
	}
	old := h.current.Load()
	if old != nil && !h.stale.Swap(false) { // somebody else has read it meanwhile
		return old, nil
	}
	a, err := e.readAudience(ctx, old)
	if err != nil {
		h.stale.Store(true)
		return nil, err
	}
	h.current.Store(a)
	return a, nil
}

// outdated notes that the store knows of a later audience than a.
func (e *entry) outdated(a *audience) {
	if e.house.current.Load() == a {
		e.house.stale.Store(true)
	}
}

// applyRule has the audience follow a change of a rule that was made here, so that
// it need not be read anew. sub is the subscription after the change, at that
// version of the topic; r is the compiled rule, nil if it was removed. Where the
// audience is not the one right before, it stays stale.
func (e *entry) applyRule(sub core.Entity, version int64, name string, r *rules.Rule) {
	h := e.house
	select {
	case h.door <- struct{}{}:
		defer func() { <-h.door }()
	default: // it is read just now
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
	a := &audience{version: version, members: slices.Clone(old.members), set: old.set, broken: old.broken}
	a.members[i].view = e.b.newView(sub)
	h.current.Store(a)
	h.stale.Store(false)
}

// readAudience reads the audience anew; what has not changed since old is taken from there.
func (e *entry) readAudience(ctx context.Context, old *audience) (*audience, error) {
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
	a := &audience{version: t.Version, members: make([]member, len(t.Subscriptions))}
	compiled := make([][]*rules.Rule, len(t.Subscriptions))
	known := old.byID()
	for i := range t.Subscriptions {
		m, ok := known[t.Subscriptions[i].ID]
		if !ok || m.Revision != t.Subscriptions[i].Revision {
			m = e.b.newMember(t.Subscriptions[i])
		}
		a.members[i], compiled[i] = m, m.rules.all()
		if m.err != nil {
			a.broken = append(a.broken, i)
		}
	}
	a.set = rules.NewSet(compiled)
	return a, nil
}

func (a *audience) byID() map[string]member {
	if a == nil {
		return nil
	}
	known := make(map[string]member, len(a.members))
	for _, m := range a.members {
		known[m.ID] = m
	}
	return known
}

// newMember compiles a subscription's rules. Each was compiled before it was
// stored; should this version refuse one, all its messages count as such that
// could not be evaluated.
func (b *Broker) newMember(ent core.Entity) member {
	stored := ent.Rules
	ent.Rules = nil
	m := member{view: b.newView(ent), rules: &ruleBook{byName: make(map[string]*rules.Rule, len(stored))}}
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

// matches are what rules say of a message, while copies are made of it.
var matches = sync.Pool{New: func() any { return new([]rules.Copy) }}

// copies appends what the audience gets of a message in a partition of its topic.
func (a *audience) copies(dst []core.Copy, topic *view, index uint16, m *core.Message, f rules.Facts) []core.Copy {
	found := matches.Get().(*[]rules.Copy)
	*found = a.set.Match((*found)[:0], m, f)
	defer func() {
		clear(*found)
		matches.Put(found)
	}()
	first := len(dst)
	dst = slices.Grow(dst, len(*found))
	for i := range *found {
		c := &(*found)[i]
		own := &a.members[c.Sub]
		if c.Err == nil && c.Message != m {
			c.Err = own.checkChanged(c.Rule.Name(), m, c.Message, index)
		}
		if c.Err != nil {
			dst = own.appendFault(dst, first, index, m, c.Err)
			continue
		}
		dst = append(dst, own.copy(topic, index, c.Message))
	}
	for _, i := range a.broken {
		own := &a.members[i]
		dst = own.appendFault(dst, first, index, m, own.err)
	}
	return dst
}

// copy is what the subscription gets of a message that matched: in its own
// queue, or where it requires a session and the message has none, dead-lettered.
func (m *member) copy(topic *view, index uint16, msg *core.Message) core.Copy {
	if m.Settings.RequiresSession && !msg.HasSession() {
		return m.dead(index, msg, core.ReasonNoSession, core.DescriptionNoSession)
	}
	life := shorter(shorter(msg.TimeToLive, topic.Settings.DefaultMessageTimeToLive), m.Settings.DefaultMessageTimeToLive)
	if life != msg.TimeToLive {
		shortened := *msg
		shortened.TimeToLive = life
		msg = &shortened
	}
	return core.Copy{To: m.partitions[core.Main][index], Message: msg}
}

// checkChanged refuses what an action must not make of a message: a session
// lies in one partition, and the copy in that of the message.
func (m *member) checkChanged(rule string, before, after *core.Message, index uint16) error {
	key := after.SessionKey()
	if !m.Settings.RequiresSession || key == "" || key == before.SessionKey() {
		return nil
	}
	if core.PartitionOf(string(key), len(m.partitions[core.Main])) != index {
		return core.Refuse(core.InvalidArgument, "Rule '%s': the action sets the session id '%.130s', which belongs to another partition of the topic than the message: give the message a partition key of that value.",
			rule, after.SessionID)
	}
	return nil
}

// appendFault dead-letters a message that could not be evaluated, once for all
// the subscription's rules, unless the settings say that it is to be dropped.
// Copies of the message begin at first.
func (m *member) appendFault(dst []core.Copy, first int, index uint16, msg *core.Message, err error) []core.Copy {
	if !m.Settings.DeadLetteringOnFilterEvaluationExceptions {
		return dst
	}
	for i := first; i < len(dst); i++ {
		if dst[i].To.Ref == m.partitions[core.DeadLetter][index].Ref {
			return dst
		}
	}
	return append(dst, m.dead(index, msg, core.ReasonFilterException, core.TextOf(err)))
}

// dead is a copy of a message in the subscription's dead-letter queue.
func (m *member) dead(index uint16, msg *core.Message, reason, description string) core.Copy {
	dead := *msg
	dead.Properties = msg.Properties.Merge(reasonProperties(reason, description))
	return core.Copy{To: m.partitions[core.DeadLetter][index], Message: &dead}
}

// reasonProperties says why a message is dead-lettered.
func reasonProperties(reason, description string) core.Properties {
	over, err := core.NewProperties(
		core.Property{Key: core.PropertyDeadLetterReason, Value: truncate(reason, core.MaxDeadLetterTextChars)},
		core.Property{Key: core.PropertyDeadLetterDescription, Value: truncate(description, core.MaxDeadLetterTextChars)},
	)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return over
}

// shorter caps a message's life, 0 for one without end, by a setting.
func shorter(life, limit time.Duration) time.Duration {
	if life <= 0 || life > limit {
		life = limit
	}
	if life == core.Forever {
		return 0
	}
	return life
}

// verdicts are the events that tell which copies were made of a message, and by
// which rules.
func (a *audience) verdicts(copies []core.Copy, m *core.Message, f rules.Facts) []core.Event {
	if len(copies) == 0 {
		return []core.Event{{Kind: core.EventUnmatched}}
	}
	known := a.byID()
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
		if by, ok := c.Message.Properties.Get(rules.PropertyRuleName); ok && own.acts(by) {
			e.Rule, _ = by.(string)
		} else {
			e.Rule = own.matching(m, f)
		}
		events = append(events, e)
	}
	return events
}

// acts reports whether the subscription has a rule of that name with an action.
func (m *member) acts(name any) bool {
	text, _ := name.(string)
	r := m.rules.get(text)
	return r != nil && r.Name() == text && r.HasAction()
}

// matching names the subscription's rules without an action that match a message.
func (m *member) matching(msg *core.Message, f rules.Facts) string {
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
