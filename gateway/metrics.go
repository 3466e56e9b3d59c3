package main

import (
	"log/slog"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
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
