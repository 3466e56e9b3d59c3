package main

import (
	"log/slog"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func newPlugins(c *config.Config, log *slog.Logger) *host.Host {
	var all []host.Options
	for _, p := range c.Plugins {
		all = append(all, host.Options{
			Name: p.Name, Path: p.Path, Args: p.Args, SHA256: p.SHA256, Env: p.Env, Dir: p.Dir,
			CallTimeout: p.CallTimeout, StartTimeout: p.StartTimeout, DrainTimeout: p.DrainTimeout,
			Queue: p.Queue, Batch: p.Batch, BackoffMin: p.BackoffMin, BackoffMax: p.BackoffMax,
			Failures: p.Failures, Off: p.Off, HealthInterval: p.HealthInterval, Memory: int64(p.MaxMemory) << 20, Files: p.MaxFiles,
		})
	}
	return host.New(all, log)
}

// pluginHealth is what /health tells of plugins: nothing, if there are none.
func pluginHealth(h *host.Host) map[string]any {
	conditions := map[string]host.Condition{}
	for _, s := range h.States() {
		conditions[s.Name] = s.Condition
	}
	if len(conditions) == 0 {
		return map[string]any{}
	}
	return map[string]any{"plugins": conditions}
}
