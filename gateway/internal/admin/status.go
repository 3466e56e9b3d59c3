package admin

import (
	"context"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

const (
	// probeAge is how old the measured latency of the store may be.
	probeAge  = 2 * time.Second
	probeTime = 5 * time.Second
)

// Process is what the gateway knows of itself.
type Process struct {
	Version    string
	Started    time.Time
	Store      core.Store
	Memory     func() memory.Usage
	Messages   *fair.Pool
	Namespaces func() int // that are served now
}

// storeProbe measures the store, once for all that ask.
type storeProbe struct {
	mu    sync.Mutex
	taken time.Time
	state api.Store
}

// status describes the client's namespace at this gateway and, for operators, the gateway.
func (a *API) status(c *call) (any, error) {
	if _, err := a.Broker.Namespace(c.Context(), c.id); err != nil { // it starts the namespace
		return nil, err
	}
	about, err := a.Directory.Describe(c.Context(), c.id.Namespace())
	if err != nil {
		return nil, err
	}
	served, err := a.served(c.id)
	if err != nil {
		return nil, err
	}
	told := api.Status{
		Namespace: about.Name, Now: served.Broker.Now(), VirtualTime: about.Clock != nil,
		Frozen: about.Clock != nil && !about.Clock.Frozen.IsZero(), AllowFaults: about.AllowFaults,
	}
	if a.isOperator(c.id) {
		told.Gateway = a.gateway(c.Context())
	}
	return told, nil
}

func (a *API) gateway(ctx context.Context) *api.Gateway {
	messages := a.Process.Messages.Stats()
	g := &api.Gateway{
		Version: a.Process.Version, Started: a.Process.Started, Store: a.probe.of(ctx, a.Process.Store), Connections: a.Clients.Count(ctx), Namespaces: a.Process.Namespaces(),
		Memory: api.Memory{InUse: memory.InUse(), Limit: a.Process.Memory().Limit, Messages: messages.Held, MessagesLimit: messages.Limit},
	}
	g.In, g.Out = a.History.Rates()
	return g
}

// of measures how long the store takes, unless that was done lately.
func (p *storeProbe) of(ctx context.Context, s core.Store) api.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.taken) < probeAge {
		return p.state
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	began := time.Now()
	err := s.Probe(ctx)
	took := time.Since(began)
	about := s.About(ctx)
	p.state = api.Store{
		Engine: about.Engine, Detail: about.Detail, Durable: about.Durable, Warnings: about.Warnings,
		LatencyMS: milliseconds(took), SkewMS: milliseconds(about.Skew),
	}
	if err != nil {
		p.state.Error = err.Error()
	}
	p.taken = time.Now()
	return p.state
}

// milliseconds is a duration to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
