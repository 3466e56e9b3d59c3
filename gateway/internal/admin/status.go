package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/history"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

const (
	probeAge  = 2 * time.Second
	probeTime = 5 * time.Second
)

type Process struct {
	Version    string
	Started    time.Time
	Store      core.Store
	Memory     func() memory.Usage
	Messages   *fair.Pool
	Namespaces func() int

	probe storeProbe
}

func (p *Process) Vitals(ctx context.Context) history.Vitals {
	return history.Vitals{LatencyMS: p.probe.of(ctx, p.Store).LatencyMS, InUse: memory.InUse(), Messages: p.Messages.Stats().Held}
}

// storeProbe measures the store's latency. Concurrent requests share one measurement.
type storeProbe struct {
	mu    sync.Mutex
	taken time.Time
	state api.Store
}

func (a *API) status(c *call) (any, error) {
	served, err := a.started(c)
	if err != nil {
		return nil, err
	}
	about, err := a.Directory.Describe(c.Context(), c.id.Namespace())
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
		Version: a.Process.Version, Started: a.Process.Started, Store: a.Process.probe.of(ctx, a.Process.Store), Connections: a.Clients.Count(), Namespaces: a.Process.Namespaces(),
		Memory: api.Memory{InUse: memory.InUse(), Limit: a.Process.Memory().Limit, Messages: messages.Held, MessagesLimit: messages.Limit},
	}
	g.In, g.Out = a.History.Rates()
	return g
}

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
		About: about, LatencyMS: milliseconds(took), SkewMS: milliseconds(about.Skew),
	}
	if err != nil {
		p.state.Error = err.Error()
	}
	p.taken = time.Now()
	return p.state
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const reloadTimeout = 2 * time.Minute

func (a *API) plugins(c *call) (any, error) {
	switch {
	case c.path == "":
		return a.Plugins.States(), nil
	case c.Method == http.MethodPost:
		return a.reload(c)
	}
	return a.plugin(c.path)
}

func (a *API) plugin(name string) (any, error) {
	states := a.Plugins.States()
	if i := slices.IndexFunc(states, func(s host.State) bool { return s.Name == name }); i >= 0 {
		return states[i], nil
	}
	return nil, core.Refuse(core.NotFound, "The plugin %q does not exist.", name)
}

func (a *API) reload(c *call) (any, error) {
	var request api.ReloadRequest
	if err := c.read(&request, `{"sha256": "…"}`); err != nil {
		return nil, err
	}
	// The reload continues even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), reloadTimeout)
	defer cancel()
	if err := a.Plugins.Reload(ctx, c.path, request.SHA256); err != nil {
		return nil, err
	}
	return a.plugin(c.path)
}

func (a *API) pipelines(*call) (any, error) { return a.Stages(), nil }

func (a *API) hooks(c *call) (any, error) {
	all := []api.Hook{}
	for _, h := range a.Hooks() {
		if a.isOperator(c.id) || h.Namespace == c.id.NamespaceID() {
			all = append(all, api.Hook{Namespace: h.Namespace, Name: h.Name, Path: webhooks.Path + h.Name, Entity: h.Entity, Verify: string(h.Scheme), Headers: h.Headers})
		}
	}
	return all, nil
}

func (a *API) pushes(c *call) (any, error) {
	all := []api.Push{}
	for _, p := range a.Pushes() {
		if a.isOperator(c.id) || p.Namespace == c.id.NamespaceID() {
			all = append(all, api.Push{Namespace: p.Namespace, PushState: p.State()})
		}
	}
	return all, nil
}

func (a *API) remotes(c *call) (any, error) {
	shown := a.Remotes
	if !a.isOperator(c.id) {
		shown = slices.DeleteFunc(slices.Clone(shown), func(m Remote) bool { return m.Namespace != c.id.NamespaceID() })
	}
	all := []api.Remote{}
	var exports []broker.Export
	for i, m := range shown {
		if i == 0 || m.Namespace != shown[i-1].Namespace {
			exports = nil
			if n := a.Served(m.Namespace); n != nil { // nil while the gateway stops
				var err error
				if exports, err = n.Broker.Exports(c.Context()); err != nil {
					return nil, err
				}
			}
		}
		state := api.Remote{Namespace: m.Namespace, State: m.State(), Waiting: []broker.Export{}}
		for _, e := range exports {
			if strings.EqualFold(e.Remote, state.Name) {
				state.Waiting = append(state.Waiting, e)
			}
		}
		all = append(all, state)
	}
	return all, nil
}

func (a *API) connections(c *call) (any, error) {
	if c.path != "" {
		return a.Clients.Close(c.Context(), c.id, c.path)
	}
	all, err := a.Clients.Connections(c.Context(), c.id)
	return api.ConnectionList{Connections: append([]bridges.Connection{}, all...)}, err
}
