package state

import (
	"context"
	"fmt"
	"math"

	"github.com/crosstown-mq/crosstown/core"
)

type ruleBook struct {
	names  sortedNames
	byName map[string]core.Rule
}

func described(e core.Entity) core.Entity {
	e.Rules = nil
	return e
}

func cloneRule(r core.Rule) core.Rule {
	if r.Filter.Correlation != nil {
		r.Filter.Correlation = new(*r.Filter.Correlation)
	}
	return r
}

// c.mu is held.
func (c *catalogue) setRules(id string, rules []core.Rule) {
	if c.rules == nil {
		c.rules = make(map[string]*ruleBook)
	}
	b := &ruleBook{byName: make(map[string]core.Rule)}
	c.rules[id] = b
	for _, r := range rules {
		b.change(core.RuleChange{Rule: r})
	}
}

func (b *ruleBook) change(c core.RuleChange) {
	name := core.FoldName(c.Rule.Name)
	if c.Remove {
		b.names.remove(name)
		delete(b.byName, name)
		return
	}
	b.names.add(name)
	b.byName[name] = c.Rule
}

// b may be nil.
func (b *ruleBook) page(skip, top int) []core.Rule {
	if b == nil {
		return nil
	}
	names := b.names.page(skip, top)
	rules := make([]core.Rule, len(names))
	for i, name := range names {
		rules[i] = cloneRule(b.byName[name])
	}
	return rules
}

func (c *catalogue) ChangeRule(ctx context.Context, e core.Entity, change core.RuleChange) (core.Entity, int64, error) {
	e = described(cloneEntity(e))
	change.Rule = cloneRule(change.Rule)
	version, err := c.update(ctx, &e, core.NamespaceQuotas{}, &change)
	if err != nil {
		return core.Entity{}, 0, fmt.Errorf("cannot change a rule of %s: %w", &e, err)
	}
	return cloneEntity(e), version, nil
}

func (c *catalogue) Rules(_ context.Context, e core.Entity, skip, top int) ([]core.Rule, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rules[e.ID].page(skip, top), nil
}

func (c *catalogue) Rule(_ context.Context, e core.Entity, name string) (core.Rule, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if b := c.rules[e.ID]; b != nil {
		if r, ok := b.byName[core.FoldName(name)]; ok {
			return cloneRule(r), nil
		}
	}
	return core.Rule{}, fmt.Errorf("cannot read rule %s of %s: %w", name, &e, core.NotFound)
}

const allRules = math.MaxInt
