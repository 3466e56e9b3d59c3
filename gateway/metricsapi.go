package main

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
)

// metricsPath is where the metrics are, on every listener; countersPath has an
// entity's name behind it. No entity's name begins with a dollar sign.
const (
	metricsPath  = "/$crosstown/metrics"
	countersPath = "/$crosstown/counters/"
)

func newMetrics(c *config.Config, log *slog.Logger) *metrics.Metrics {
	return metrics.New(metrics.Options{
		Version: versionText(), MaxEntities: c.Metrics.MaxEntities, MaxNamespaces: c.Metrics.MaxNamespaces, Refresh: c.Metrics.Refresh, Logger: log,
	})
}

// observed is the store with its calls timed.
func observed(m *metrics.Metrics, st *store) core.Store {
	if r := st.redis; r != nil {
		m.Flushes(r.Flushes)
		m.Failures(r.Failures)
	}
	return m.Store(st)
}

// metricsAPI answers GET for metrics and for the counters that autoscalers read. Metrics need
// Manage on a namespace: the client gets that namespace's, or all if it is the gateway's own.
// Counters need Listen on the entity.
type metricsAPI struct {
	adminAPI
	metrics http.Handler // of every namespace
	served  *namespaceServer
}

func (l *metricsAPI) routes(routes map[string]http.Handler) {
	routes[metricsPath] = http.HandlerFunc(l.serveMetrics)
	routes[countersPath] = http.HandlerFunc(l.serveCounters)
}

func (l *metricsAPI) serveMetrics(w http.ResponseWriter, r *http.Request) {
	shown, err := l.visible(r)
	if err == nil && r.Method != http.MethodGet {
		err = useMethods(http.MethodGet, "The metrics can be got.")
	}
	if err != nil {
		l.reply(w, r, nil, err)
		return
	}
	shown.ServeHTTP(w, r)
}

// visible returns the handler of the metrics that the client may see.
func (l *metricsAPI) visible(r *http.Request) (http.Handler, error) {
	id, err := l.identity(r)
	if err != nil {
		return nil, err
	}
	if l.directory.Operator(id, time.Now()) {
		return l.metrics, nil
	}
	if _, err := l.directory.Namespace(r.Context(), id); err != nil { // who may not Manage it; it is served then
		return nil, err
	}
	served, err := l.servedOf(id)
	if err != nil {
		return nil, err
	}
	return served.metrics, nil
}

// servedOf returns the client's namespace.
func (l *metricsAPI) servedOf(id core.Identity) (*servedNamespace, error) {
	if is := l.served.of(id.NamespaceID()); is != nil {
		return is, nil
	}
	return nil, core.Refuse(core.NotFound, "The namespace '%s' is not served.", id.Namespace()) // any more
}

func (l *metricsAPI) serveCounters(w http.ResponseWriter, r *http.Request) {
	told, err := l.count(r)
	l.reply(w, r, told, err)
}

func (l *metricsAPI) count(r *http.Request) (metrics.Counter, error) {
	id, err := l.identity(r)
	if err != nil {
		return metrics.Counter{}, err
	}
	name := strings.Trim(r.URL.Path[len(countersPath):], "/")
	a, err := core.ParseAddress(name)
	if err != nil || name == "" || a.Sub != core.Main || a.Management {
		return metrics.Counter{}, core.Refuse(core.NotFound, "'%s' is no queue, topic or subscription: get %sNAME.", name, countersPath)
	}
	if err := id.Check(core.Listen, a.Entity, time.Now()); err != nil {
		return metrics.Counter{}, err
	}
	if r.Method != http.MethodGet {
		return metrics.Counter{}, useMethods(http.MethodGet, "The counters can be got.")
	}
	e, _, err := l.directory.Resolve(r.Context(), id, name)
	if err != nil {
		return metrics.Counter{}, err
	}
	served, err := l.servedOf(id)
	if err != nil {
		return metrics.Counter{}, err
	}
	return served.counters.Read(r.Context(), e)
}
