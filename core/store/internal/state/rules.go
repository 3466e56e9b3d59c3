package state

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
)

// ruleBook has the rules of a subscription, ordered by lower-case name.
type ruleBook []core.Rule

func (b ruleBook) search(name string) (at int, known bool) {
	return slices.BinarySearchFunc(b, core.FoldName(name), func(r core.Rule, folded string) int {
		return cmp.Compare(core.FoldName(r.Name), folded)
	})
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
		c.rules = make(map[string]ruleBook)
	}
	c.rules[id] = nil
	for _, r := range rules {
		c.changeRule(id, core.RuleChange{Rule: r})
	}
}

// c.mu is held.
func (c *catalogue) changeRule(id string, x core.RuleChange) {
	b := c.rules[id]
	at, known := b.search(x.Rule.Name)
	if known {
		b = slices.Delete(b, at, at+1)
	}
	if !x.Remove {
		b = slices.Insert(b, at, x.Rule)
	}
	c.rules[id] = b
}

func (b ruleBook) page(skip, top int) []core.Rule {
	rules := make([]core.Rule, 0, min(len(b), max(top, 0)))
	for _, r := range page(b, skip, top) {
		rules = append(rules, cloneRule(r))
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
	if at, known := c.rules[e.ID].search(name); known {
		return cloneRule(c.rules[e.ID][at]), nil
	}
	return core.Rule{}, fmt.Errorf("cannot read rule %s of %s: %w", name, &e, core.NotFound)
}

const allRules = math.MaxInt
