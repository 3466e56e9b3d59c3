package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/core/taps"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
	"github.com/crosstown-mq/crosstown/gateway/internal/history"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// namespaceServer starts, for each namespace, the parts of the gateway that serve only this one.
type namespaceServer struct {
	c         *config.Config
	log       *slog.Logger
	plugins   *host.Host
	traces    *tracing.Tracing
	metrics   *metrics.Metrics
	pools     *pools
	histories *history.History
	remotes   *remotes
	observed  core.Store      // the store, wrapped to record metrics and traces
	bodies    *payload.Chain  // decodes bodies for rules and schemas
	running   *rungroup.Group // runs the brokers; if one fails, the gateway fails

	mu   sync.Mutex
	open map[string]*admin.Served // served namespaces, by ID
}

func (t *namespaceServer) openDirectory(ctx context.Context, issuers auth.Issuers, hosts []string) (*namespaces.Directory, error) {
	return namespaces.Open(ctx, namespaces.Options{
		Own: t.c.Own(), Configured: t.c.Others(), Registry: t.observed, Open: t.serve,
		Hosts: hosts, Issuers: issuers, PublicKeys: []string{config.DevKey}, Limits: t.c.Limits(), Now: t.observed.Now, Logger: t.log,
	})
}

// serve returns when clients can use n: its configured entities exist, and metrics include it.
func (t *namespaceServer) serve(ctx context.Context, n core.Namespace, live *namespaces.Member) (namespaces.Served, error) {
	log := logOf(t.c, n.Name, t.log)
	contents := t.c.ContentsOf(n.ID)
	store := t.observed
	if n.Clock != nil {
		store = store.WithTime(live.Time)
	}
	b, err := t.newBroker(store, n, contents, live, log)
	if err != nil {
		return namespaces.Served{}, err
	}
	bodies, err := transcoder(t.serializers(n), t.plugins, t.pools.decoding, store.Now, log)
	if err != nil {
		return namespaces.Served{}, err
	}
	runs, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	t.running.Go("broker of "+n.Name, func(context.Context) error {
		defer close(stopped)
		return b.Run(runs)
	})
	var rules *faults.Rules
	if n.AllowFaults {
		rules = faults.New(live, t.observed.Now)
	}
	unfollow := t.histories.Add(n.ID, b)
	shown, hide := t.metrics.Namespace(n.Name, b, t.remotes.statesOf(n.ID))
	shows := taps.New(store.Now, t.pools.Budget)
	served := namespaces.Served{Space: intercept.Space{Broker: b, Admin: b}}
	if rules != nil {
		served.Chain, served.Grant = append(served.Chain, rules), rules.Grant
	}
	served.Chain = append(served.Chain, shows, bodies)
	t.note(n.ID, &admin.Served{Faults: rules, Taps: shows, Broker: b, Counters: metrics.NewCounters(b), Metrics: shown})
	served.Close = func() {
		t.note(n.ID, nil)
		unfollow()
		shows.End()
		hide()
		stop()
		<-stopped
		bodies.Wait()
	}
	if n.Clock != nil {
		served.RunDue = b.RunDue
	}
	err = declare(ctx, b, contents, t.c.UpdateEntities, log)
	if err == nil && rules != nil {
		err = rules.Configure(ctx, contents.FaultRules())
	}
	if err != nil {
		served.Close()
		return namespaces.Served{}, err
	}
	return served, nil
}

// Serializers for single entities can be configured only in the gateway's own namespace.
func (t *namespaceServer) serializers(n core.Namespace) *config.Serializers {
	all := t.c.Serializers
	if n.ID != t.c.Namespace {
		all.Entities = nil
	}
	return &all
}

func (t *namespaceServer) note(id string, is *admin.Served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is == nil {
		delete(t.open, id)
		return
	}
	t.open[id] = is
}

func (t *namespaceServer) of(id string) *admin.Served {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

func (t *namespaceServer) all() []*admin.Served {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.open))
}

func (t *namespaceServer) stages() []broker.StageCounts {
	all := []broker.StageCounts{} // not nil, because JSON must contain an empty list, not null
	for _, each := range t.all() {
		all = append(all, each.Broker.Stages()...)
	}
	return all
}

func (t *namespaceServer) openBreakers() (n int) {
	for _, each := range t.all() {
		n += each.Broker.OpenBreakers()
	}
	return n
}

// declare creates missing entities. If update is true, it also changes entities that differ from c.
// Otherwise it only logs how they differ, because clients may have changed them on purpose.
func declare(ctx context.Context, admin declaration.Admin, c *config.Contents, update bool, log *slog.Logger) error {
	return declaration.Declare(ctx, admin, c, declaration.Options{
		Identity: core.Identity{{Policy: "configuration", Rights: core.AllRights}}, Update: update,
		Report: func(r declaration.Report) {
			for _, n := range r.Differs {
				values := []any{"entity", n.Entity, "setting", n.Property, "configured", n.Declared, "stored", n.There}
				if r.Did == declaration.Changed {
					log.Info("an entity was changed to match the configuration", values...)
				} else {
					log.Warn("an entity differs from the configuration and is not changed", append(values, "remedy", "start once with --update-entities, or change the configuration")...)
				}
			}
		},
	})
}
