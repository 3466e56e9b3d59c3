package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins"
)

type Host struct{ plugins map[string]*supervised }

// New returns a host of plugins with distinct names. log may be nil.
func New(configured []Options, log *slog.Logger) *Host {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	h := &Host{plugins: map[string]*supervised{}}
	for _, o := range configured {
		h.plugins[o.Name] = newSupervised(o, log)
	}
	return h
}

// Run runs the plugins until ctx ends. Then each plugin answers its pending calls, within its drain
// time, and ends. When all have ended, Run returns nil.
func (h *Host) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, p := range h.plugins {
		all.Go(func() { p.run(ctx) })
	}
	all.Wait()
	return nil
}

// Launched waits until the first launch of each plugin has succeeded or failed.
func (h *Host) Launched(ctx context.Context) error {
	for _, p := range h.plugins {
		for s, changed := p.status(); s.Condition == Starting; s, changed = p.status() {
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Router does not check whether the plugin is a router: the first call of the Router does. The
// error is NotFound if the plugin does not exist.
func (h *Host) Router(name string) (*Router, error) {
	p, err := h.plugin(name)
	return &Router{p}, err
}

// Serializer returns the error NotFound if the plugin does not exist.
func (h *Host) Serializer(name string) (*Serializer, error) {
	p, err := h.plugin(name)
	return &Serializer{p}, err
}

func (h *Host) States() []State {
	out := []State{}
	for _, name := range slices.Sorted(maps.Keys(h.plugins)) {
		out = append(out, h.plugins[name].snapshot())
	}
	return out
}

// Reload launches and tests a new process, and then sends all new calls to it. The old process ends
// when it has answered its pending calls. If the new process does not work, Reload returns an
// error, and the old process continues. sha256 is the checksum of the new program, or "" for the
// configured one. The error is NotFound if the plugin does not exist.
func (h *Host) Reload(ctx context.Context, name, sha256 string) error {
	p, err := h.plugin(name)
	if err != nil {
		return err
	}
	r := reload{sum: sha256, done: make(chan error, 1)}
	select {
	case p.reloads <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		if err != nil {
			return core.Refuse(core.InvalidArgument, "The plugin %s was not reloaded: %v", name, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *Host) plugin(name string) (*supervised, error) {
	if p := h.plugins[name]; p != nil {
		return p, nil
	}
	return nil, core.Refuse(core.NotFound, "The plugin %q does not exist. The configured plugins are %s.", name, orNone(slices.Sorted(maps.Keys(h.plugins))))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprint(names)
}

// Check launches a plugin, tests it, and ends it.
func Check(ctx context.Context, o Options, log *slog.Logger) (*Description, error) {
	i, err := launch(ctx, o.withDefaults(), cmp.Or(log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	defer i.close(killGrace)
	return describe(i.description, i.process.ID(), plugins.Contract), nil
}

// Attach is for tests: the plugin already serves at the other end of conn. The caller manages its
// process, if any, and must not call the host's Run.
func Attach(ctx context.Context, o Options, conn *grpc.ClientConn) (h *Host, close func(), err error) {
	h = New([]Options{o}, nil)
	p := h.plugins[o.Name]
	i := &instance{opts: p.opts, conn: conn, process: newProcess(nil)}
	if err := i.greet(ctx); err != nil {
		i.close(0)
		return nil, nil, err
	}
	p.begin(i, 0)
	return h, func() { i.close(0) }, nil
}

// Options configure one plugin. A zero field means its default.
type Options struct {
	Name string   `config:"name"` // the name of the plugin in this gateway
	Path string   `config:"path"` // path of the program, or a name to look up in PATH
	Args []string `config:"args"`
	// SHA256 is the required checksum of the program's file, in hexadecimal. "" disables the check.
	SHA256 string `config:"sha256"`
	// Env is the program's whole environment, except for variables of the handshake. An entry is
	// NAME=VALUE, or NAME for the value that the gateway has.
	Env []string `config:"env"`
	Dir string   `config:"dir"` // the program's working directory; "" for the gateway's

	CallTimeout  time.Duration `config:"call-timeout" range:"1ms to 1h"`  // for a call, including its wait for an instance; default 2s
	StartTimeout time.Duration `config:"start-timeout" range:"1ms to 1h"` // from the launch to the first answer; default 10s
	DrainTimeout time.Duration `config:"drain-timeout" range:"1ms to 1h"` // for pending calls when the process is replaced or stopped; default 5s

	Queue int `config:"queue" range:"1 to 1048576"` // messages that may wait or be in progress; further calls fail with Busy; default 10000
	Batch int `config:"batch" range:"1 to 10000"`   // messages in one frame; default 200

	BackoffMin     time.Duration `config:"backoff-min" range:"1ms to 1h"`     // the pause before a restart, doubled by each failure; default 100ms
	BackoffMax     time.Duration `config:"backoff-max" range:"1ms to 1h"`     // the longest pause before a restart; default 10s
	Failures       int           `config:"failures" range:"1 to 1000"`        // consecutive failures (a process ends, or a launch fails) after which the plugin is off; default 5
	Off            time.Duration `config:"off" range:"1ms to 1h"`             // pause before a plugin that is off is launched again; default 30s
	HealthInterval time.Duration `config:"health-interval" range:"1ms to 1h"` // between two health checks; default 5s
	// If a process uses more than Memory bytes or Files open files, the host replaces it, as Reload
	// does. 0 means no limit. The host checks this with the plugin's health, on Linux only.
	Memory int64 `config:"-"`
	Files  int   `config:"max-open-files" range:"1 to 1073741824"`
}

const (
	maxFrames     = 4        // frames of one stream that may be unanswered
	maxFrameBytes = 1 << 20  // limit in bytes for a frame with more than one request
	maxQueueBytes = 64 << 20 // limit in bytes for all waiting requests; one request may be larger
	missLimit     = 3        // consecutive unanswered calls after which a process counts as hung
	killGrace     = 2 * time.Second
)

func (o Options) withDefaults() Options {
	o.CallTimeout = cmp.Or(o.CallTimeout, 2*time.Second)
	o.StartTimeout = cmp.Or(o.StartTimeout, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	o.Queue = cmp.Or(o.Queue, 10000)
	o.Batch = cmp.Or(o.Batch, 200)
	o.BackoffMin = cmp.Or(o.BackoffMin, 100*time.Millisecond)
	o.BackoffMax = max(o.BackoffMin, cmp.Or(o.BackoffMax, 10*time.Second))
	o.Failures = cmp.Or(o.Failures, 5)
	o.Off = cmp.Or(o.Off, 30*time.Second)
	o.HealthInterval = cmp.Or(o.HealthInterval, 5*time.Second)
	return o
}
