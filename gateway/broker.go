package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/schema"
)

var unavailable = map[string]broker.Unavailable{
	"": broker.Refuse, config.Refuse: broker.Refuse, config.Pass: broker.Pass, config.Park: broker.Park,
}

// newBroker must run after the launch of the plugins, which then say whether they are routers.
func (t *namespaceServer) newBroker(store core.Store, n core.Namespace, contents *config.Contents, live *namespaces.Member, log *slog.Logger) (*broker.Broker, error) {
	pipelines, err := t.pipelines(contents.Pipelines)
	if err != nil {
		return nil, err
	}
	filters, err := t.filters()
	if err != nil {
		return nil, err
	}
	return broker.New(store, broker.Options{
		Namespace: n.ID, Name: n.Name, Logger: log, Limits: t.c.Limits(), Quotas: live.Quotas, Answers: live.Answers, PartitionCount: contents.Partitions,
		Body: t.bodies.Body, Pipelines: pipelines, Filters: filters, Selected: selected(contents, t.bodies), Remotes: t.remotes.byName(n.ID, t.traces),
		Histories: histories(contents.Histories), Gateway: gatewayName(t.c), ForwardWait: t.c.ForwardWait, Memory: t.pools.Budget,
	}), nil
}

func (t *namespaceServer) pipelines(all []config.Pipeline) (lines []broker.Pipeline, err error) {
	stage := func(s *config.Stage) broker.Stage {
		made, failed := t.stage(s)
		err = cmp.Or(err, failed)
		return made
	}
	for i := range all {
		configured := &all[i]
		line := broker.Pipeline{Entity: configured.Entity, FollowTo: configured.FollowTo}
		for n := range configured.Ingress {
			line.Ingress = append(line.Ingress, stage(&configured.Ingress[n]))
		}
		if configured.To != nil {
			line.To = new(stage(configured.To))
		}
		lines = append(lines, line)
	}
	return lines, err
}

// filters returns the plugins that rules may call. It omits those known not to be routers.
func (t *namespaceServer) filters() ([]broker.Stage, error) {
	var all []broker.Stage
	for i := range t.c.Plugins {
		configured := &t.c.Plugins[i]
		if t.doesNotRoute(configured.Name) {
			continue
		}
		s, err := t.stage(&config.Stage{Plugin: configured.Name})
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (t *namespaceServer) stage(s *config.Stage) (broker.Stage, error) {
	if t.doesNotRoute(s.Plugin) {
		return broker.Stage{}, fmt.Errorf("the pipeline contains plugin %s, which is a serializer: use a router there, or move the plugin to serializers.chain", s.Plugin)
	}
	r, err := t.plugins.Router(s.Plugin)
	if err != nil {
		return broker.Stage{}, fmt.Errorf("plugin %s: %s", s.Plugin, core.TextOf(err))
	}
	parameters, err := s.Parameters()
	return broker.Stage{Name: s.Plugin, Router: t.traces.Router(r, s.Plugin), Parameters: parameters, Unavailable: unavailable[t.c.UnavailableAt(s)]}, err
}

func (t *namespaceServer) doesNotRoute(name string) bool {
	for _, s := range t.plugins.States() {
		if s.Name == name {
			return s.Description != nil && !s.Router
		}
	}
	return false
}

func selected(contents *config.Contents, bodies *payload.Chain) (s broker.Selected) {
	s.Schedules = contents.Schedules
	for _, r := range contents.Retries {
		s.Retries = append(s.Retries, broker.For[broker.Retry]{Entity: r.Entity, Set: broker.Retry{Backoff: core.Backoff{First: r.Backoff, Factor: r.Factor, Max: r.Max}, Jitter: r.Jitter}})
	}
	for i := range contents.RateLimits {
		l := &contents.RateLimits[i]
		rate, _ := l.Limit() // no error: config.Load has validated the rate
		s.RateLimits = append(s.RateLimits, broker.For[core.Rate]{Entity: l.Entity, Set: rate})
	}
	for i := range contents.CircuitBreakers {
		c, failures, _ := contents.CircuitBreakers[i].Limits() // no error: config.Load has validated the settings
		b := broker.Breaker{Failures: failures, Of: c.Of, Consecutive: c.Consecutive, Pause: c.Pause}
		s.CircuitBreakers = append(s.CircuitBreakers, broker.For[broker.Breaker]{Entity: c.Entity, Set: b})
	}
	for _, d := range contents.DeadLetters {
		s.DeadLetters = append(s.DeadLetters, broker.For[time.Duration]{Entity: d.Entity, Set: d.Keep})
	}
	for _, c := range contents.Schemas {
		s.Schemas = append(s.Schemas, broker.For[core.Router]{Entity: c.Entity, Set: &schema.Router{Set: c.Set, Action: mismatch[c.OnMismatch], Bodies: bodies}})
	}
	return s
}

var mismatch = map[string]core.VerdictAction{
	"": core.VerdictRefuse, config.Refuse: core.VerdictRefuse, config.DeadLetter: core.VerdictDeadLetter, config.Count: core.VerdictPass,
}

func histories(configured []config.History) []broker.For[core.HistoryBounds] {
	all := make([]broker.For[core.HistoryBounds], len(configured))
	for i, h := range configured {
		all[i] = broker.For[core.HistoryBounds]{Entity: h.Entity, Set: core.HistoryBounds{Keep: cmp.Or(h.Keep, config.DefaultHistory), Max: cmp.Or(h.Max, config.DefaultEvents)}}
	}
	return all
}

func gatewayName(c *config.Config) string {
	name, err := os.Hostname()
	if err != nil {
		name = "gateway"
	}
	if len(c.Listen) == 0 {
		return name
	}
	_, port, err := net.SplitHostPort(c.Listen[0])
	if err != nil || port == "0" {
		return name
	}
	return net.JoinHostPort(name, port)
}
