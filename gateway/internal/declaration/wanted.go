// Package declaration makes a namespace match a configuration: it creates missing queues, topics,
// subscriptions and rules, reports how existing ones differ, and changes them on request. The
// namespace is one of this gateway, or behind a management API.
package declaration

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Admin is the part of core.Admin that clients of the management API implement, too.
type Admin interface {
	CreateEntity(ctx context.Context, id core.Identity, kind core.Kind, name string, s core.Settings, first *core.Rule) (core.Entity, error)
	Entity(ctx context.Context, id core.Identity, name string) (core.Entity, core.Runtime, error)
	Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) ([]core.Entity, []core.Runtime, error)
	UpdateEntity(ctx context.Context, id core.Identity, name string, s core.Settings) (core.Entity, error)
	CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error)
	UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error)
	DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error
	Rules(ctx context.Context, id core.Identity, subscription string, skip, top int) ([]core.Rule, error)
}

// wanted is a declared entity. If nil, its policies and rules are not compared.
type wanted struct {
	config.Declared
	name string // with the topic of a subscription
}

func (w *wanted) settings() core.Settings {
	s := core.DefaultSettings(w.Kind)
	w.Apply(&s)
	return s
}

func wantedOf(c *config.Contents) (all []wanted) {
	for _, d := range c.Declared() {
		all = append(all, wanted{d, d.Path()})
	}
	return all
}

// inOrder sorts entities so that each comes after those that it needs. In a cycle, one entity comes
// too early.
func inOrder(declared []wanted) []wanted {
	byName := make(map[string]int, len(declared))
	for i := range declared {
		byName[core.FoldName(declared[i].name)] = i
	}
	seen, ordered := make([]bool, len(declared)), make([]wanted, 0, len(declared))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		s := declared[i].settings()
		for _, to := range []string{s.ForwardTo, s.ForwardDeadLetteredMessagesTo, declared[i].Topic} {
			if j, ok := byName[core.FoldName(core.ResourcePath(to))]; ok {
				visit(j)
			}
		}
		ordered = append(ordered, declared[i])
	}
	for i := range declared {
		visit(i)
	}
	return ordered
}

func (w *wanted) compiled() ([]core.Rule, error) {
	rules := make([]core.Rule, len(w.Rules))
	for i := range w.Rules {
		var err error
		if rules[i], err = w.Rules[i].Rule(); err != nil {
			return nil, err
		}
	}
	return rules, nil
}
