// Package declaration makes a namespace match a configuration. It creates missing queues, topics,
// subscriptions and rules. It reports how existing ones differ, and changes them on request. The
// namespace is in this gateway, or the package accesses it by the management API.
package declaration

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Admin is the part of core.Admin that a client of the management API also implements.
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

// inOrder sorts entities so that each comes after its topic and after the entities that it forwards
// to. If entities forward in a cycle, one of them comes before its destination.
func inOrder(declared []config.Declared) []config.Declared {
	byName := make(map[string]int, len(declared))
	for i := range declared {
		byName[core.FoldName(declared[i].Path())] = i
	}
	seen, ordered := make([]bool, len(declared)), make([]config.Declared, 0, len(declared))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		s := declared[i].Complete()
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
