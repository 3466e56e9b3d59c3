package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
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

// pluginsPath is where plugins are looked at and reloaded. No entity's name
// begins with a dollar sign.
const pluginsPath = "/$crosstown/plugins"

// pipelinesPath is where the counts of pipelines are.
const pipelinesPath = "/$crosstown/pipelines"

const (
	maxReloadBody = 4 << 10 // bytes of a request to reload
	reloadTimeout = 2 * time.Minute
)

// pluginAPI answers GET with the plugins' states; POST of {"sha256": …} to one of them reloads it.
// Both need Manage on the gateway's own namespace.
type pluginAPI struct {
	adminAPI
	plugins *host.Host
	stages  func() []broker.StageCounts
}

func (d *pluginAPI) routes(routes map[string]http.Handler) {
	routes[pluginsPath], routes[pluginsPath+"/"] = d, d
	routes[pipelinesPath] = http.HandlerFunc(d.pipelines)
}

// ServeHTTP answers one request.
func (d *pluginAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := d.answer(r)
	d.reply(w, r, answer, err)
}

func (d *pluginAPI) answer(r *http.Request) (any, error) {
	if err := d.authorize(r); err != nil {
		return nil, err
	}
	name := strings.Trim(r.URL.Path[len(pluginsPath):], "/")
	switch {
	case name == "" && r.Method == http.MethodGet:
		return d.plugins.States(), nil
	case name == "":
		return nil, useMethods(http.MethodGet, "The plugins can be got; one of them is reloaded with POST %s/NAME.", pluginsPath)
	case r.Method == http.MethodPost:
		return d.reload(r, name)
	case r.Method == http.MethodGet:
		return d.state(name)
	}
	return nil, useMethods("GET, POST", "A plugin can be got, and reloaded with POST.")
}

// pipelines answers GET with what stages have done, to who has Manage on the namespace.
func (d *pluginAPI) pipelines(w http.ResponseWriter, r *http.Request) {
	err := d.authorize(r)
	if err == nil && r.Method != http.MethodGet {
		err = useMethods(http.MethodGet, "The pipelines can be got.")
	}
	var counts any
	if err == nil {
		counts = d.stages()
	}
	d.reply(w, r, counts, err)
}

func (d *pluginAPI) state(name string) (any, error) {
	for _, s := range d.plugins.States() {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, core.Refuse(core.NotFound, "There is no plugin %q.", name)
}

func (d *pluginAPI) reload(r *http.Request, name string) (any, error) {
	var asked struct {
		SHA256 string `json:"sha256"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReloadBody))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, core.Refuse(core.InvalidArgument, `The body is no JSON like {"sha256": "…"}: %v.`, err)
		}
	}
	// It is replaced whether or not anybody waits.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadTimeout)
	defer cancel()
	if err := d.plugins.Reload(ctx, name, asked.SHA256); err != nil {
		return nil, err
	}
	return d.state(name)
}
