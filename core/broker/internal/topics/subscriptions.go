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
