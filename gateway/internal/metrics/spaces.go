package metrics

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
)

const countAtOnce = 8

type Source interface {
	Now() time.Time
	Traffic() []broker.Traffic
	Holdings(ctx context.Context, wanted func(name string, k core.Kind) bool) ([]broker.Holding, error)
	Stages() []broker.StageCounts
	FailingSchedules() int
}

type space struct {
	name     string
	registry *prometheus.Registry
	entities *entities
}

type spaces struct {
	own, others *semaphore.Weighted // limits of entities with separate series

	mu  sync.Mutex
	all []*space
}

func (s *spaces) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Namespace exports the counts of source and the states of the namespace's remotes (nil for none)
// until the caller calls hide. The first namespace must be the gateway's own. The handler own
// answers with this namespace only, and has its own limit of entities: otherwise a client could
// learn how many entities others have, and miss its own.
func (m *Metrics) Namespace(name string, source Source, states func() []remote.State) (own http.Handler, hide func()) {
	s := &m.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.others
	if len(s.all) == 0 {
		shared = s.own
	}
	newSpace := func(a *semaphore.Weighted) *space {
		x := &space{name: name, registry: prometheus.NewRegistry(), entities: &entities{
			source: source, allowance: a, refresh: m.o.Refresh, log: m.o.Logger.With("namespace", name), own: map[string]bool{},
		}}
		x.registry.MustRegister(inNamespace(name, x.entities.collect), newStages(name, source.Stages))
		if states != nil {
			x.registry.MustRegister(newRemotes(name, states))
		}
		return x
	}
	x := newSpace(shared)
	s.all = append(s.all, x)
	alone := sync.OnceValue(func() http.Handler { // few clients scrape a single namespace
		return m.handler(newSpace(semaphore.NewWeighted(int64(m.o.MaxEntities))).registry)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { alone().ServeHTTP(w, r) }), func() {
		s.mu.Lock()
		s.all = slices.DeleteFunc(s.all, func(other *space) bool { return other == x })
		s.mu.Unlock()
		x.entities.end()
	}
}

func (m *Metrics) split() (shown, rest []*space) {
	m.spaces.mu.Lock()
	defer m.spaces.mu.Unlock()
	names := map[string]bool{}
	for _, x := range m.spaces.all {
		if len(shown) <= m.o.MaxNamespaces && !names[x.name] {
			names[x.name] = true
			shown = append(shown, x)
		} else {
			rest = append(rest, x)
		}
	}
	return shown, rest
}

func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	shown, rest := m.split()
	countAll(shown)
	all := prometheus.Gatherers{m.registry}
	for _, x := range shown {
		all = append(all, x.registry)
	}
	if len(rest) > 0 {
		sum := prometheus.NewRegistry()
		sum.MustRegister(remainder(rest))
		all = append(all, sum)
	}
	return all.Gather()
}

func countAll(of []*space) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	var counting errgroup.Group
	counting.SetLimit(countAtOnce)
	for _, x := range of {
		counting.Go(func() error {
			x.entities.keepUp(ctx)
			return nil
		})
	}
	_ = counting.Wait()
}

func remainder(of []*space) *collector {
	return inNamespace(others, func(s *scrape) {
		showTraffic(s, &broker.Traffic{Entity: others}) // zeros, even if the rest has no traffic
		for _, x := range of {
			for _, t := range x.entities.source.Traffic() {
				t.Entity = others
				showTraffic(s, &t)
			}
		}
	})
}
