package topics

import (
	"maps"
	"slices"
	"strings"
	"sync"

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

func (ss *Subscriptions) byID() map[string]member {
	if ss == nil {
		return nil
	}
	known := make(map[string]member, len(ss.members))
	for _, m := range ss.members {
		known[m.ID] = m
	}
	return known
}

func (ss *Subscriptions) matchEvents(copies []core.Copy, m *core.Message, f rules.Facts) []core.Event {
	if len(copies) == 0 {
		return []core.Event{{Kind: core.EventUnmatched}}
	}
	known := ss.byID()
	events := make([]core.Event, 0, len(copies))
	for i := range copies {
		c := &copies[i]
		own := known[c.To.Subscription]
		if own.View == nil {
			continue
		}
		e := core.Event{Kind: core.EventMatched, Note: core.Note{Entity: own.Name}}
		if c.To.Sub == core.DeadLetter {
			e.Reason = audit.ReasonOf(c.Message.Properties)
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

func (m *member) hasAction(name any) bool {
	text, _ := name.(string)
	r := m.rules.get(text)
	return r != nil && r.Name() == text && r.HasAction()
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
