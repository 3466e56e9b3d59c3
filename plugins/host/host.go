package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins"
)

// Host runs plugins. Make one with New.
type Host struct{ plugins map[string]*supervised }

// New returns a host of these plugins, whose names are distinct. log may be nil.
func New(configured []Options, log *slog.Logger) *Host {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	h := &Host{plugins: map[string]*supervised{}}
	for _, o := range configured {
		h.plugins[o.Name] = newSupervised(o, log)
	}
	return h
}

// Run launches the plugins and keeps them until ctx ends. It returns nil when
// all have answered what they had, within their drain times, and are gone.
func (h *Host) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, p := range h.plugins {
		all.Go(func() { p.run(ctx) })
	}
	all.Wait()
	return nil
}

// Launched waits until each plugin answers or has failed once, or ctx ends.
func (h *Host) Launched(ctx context.Context) error {
	for _, p := range h.plugins {
		select {
		case <-p.launched:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Router returns a plugin as a router, or NotFound. Whether it is one shows when
// it is asked.
func (h *Host) Router(name string) (*Router, error) {
	p, err := h.plugin(name)
	if err != nil {
		return nil, err
	}
	return &Router{p}, nil
}

// Serializer returns a plugin as a serializer, or NotFound.
func (h *Host) Serializer(name string) (*Serializer, error) {
	p, err := h.plugin(name)
	if err != nil {
		return nil, err
	}
	return &Serializer{p}, nil
}

// States describes the plugins, by name.
func (h *Host) States() []State {
	out := []State{}
	for _, name := range slices.Sorted(maps.Keys(h.plugins)) {
		out = append(out, h.plugins[name].snapshot())
	}
	return out
}

// Reload has a new process of the plugin take over: it is launched and tried,
// gets the calls from then on, and the old one ends when it has answered those
// that it has. When the new one does not work, the error says why and the old
// one goes on. sha256 is the checksum of the new program, "" to keep the one
// that is configured. NotFound: there is no such plugin.
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
	return nil, core.Refuse(core.NotFound, "There is no plugin %q. Configured: %s.", name, orNone(slices.Sorted(maps.Keys(h.plugins))))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprint(names)
}

// Check launches a plugin, shakes hands, tries it and ends it again. It returns
// what the plugin says of itself, or why it is of no use.
func Check(ctx context.Context, o Options, log *slog.Logger) (*Description, error) {
	i, err := launch(ctx, o.withDefaults(), cmp.Or(log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	defer i.close(killGrace)
	return describe(i.description, i.process.ID(), plugins.Contract), nil
}

// Attach returns a host of one plugin that serves at the other end of conn and
// whose process, if it is one of its own, is the caller's concern: for tests. Its
// Run must not be called. close ends the stream.
func Attach(ctx context.Context, o Options, conn *grpc.ClientConn) (h *Host, close func(), err error) {
	h = New([]Options{o}, nil)
	p := h.plugins[o.Name]
	i := &instance{opts: p.opts, conn: conn, process: newProcess(nil)}
	if err := i.greet(ctx); err != nil {
		i.close(0)
		return nil, nil, err
	}
	p.begin(i, 0)
	p.firstDone()
	return h, func() { i.close(0) }, nil
}
