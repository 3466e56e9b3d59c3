package main

import (
	"context"
	"log/slog"

	"github.com/crosstown-mq/crosstown/bridges/budget"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
)

// runPushes delivers what the configuration has delivered by HTTP, as tasks of the group.
func runPushes(g *rungroup.Group, c *config.Config, b core.Broker, messages *budget.Budget, log *slog.Logger) (all []*webhooks.Push) {
	for _, o := range c.Pushes() {
		if o.Logger = log; o.Namespace != c.Namespace {
			o.Logger = log.With("namespace", o.Namespace)
		}
		o.Budget = messages
		p := webhooks.NewPush(o)
		all = append(all, p)
		g.Go("push "+o.Name, func(ctx context.Context) error { return p.Run(ctx, b) })
	}
	return all
}
