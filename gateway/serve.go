package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/bridges/websocket"
	"github.com/crosstown-mq/crosstown/bridges/websocket/client"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/intercept"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/console"
	"github.com/crosstown-mq/crosstown/gateway/internal/history"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func serveCommanded(c *cobra.Command, environ []string) error {
	// Never call signal.Stop: a SIGHUP while the gateway starts or stops must not end the process.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	read := func() (*config.Config, error) { return config.Load(c.Flags(), environ) }
	settings, err := read()
	if err != nil {
		return err
	}
	again := signals{asked: asked, read: read, level: new(slog.LevelVar)}
	_ = again.level.UnmarshalText([]byte(settings.Log.Level)) // no error: config.Load has validated it
	out := c.OutOrStdout()
	return serve(c.Context(), settings, func(a *announcement) error {
		_, err := io.WriteString(out, a.text())
		return err
	}, newLogger(c.ErrOrStderr(), settings.Log, again.level), again)
}

// serve runs a gateway. It calls ready when the gateway has started. When ctx ends, it accepts no
// more connections, waits up to the drain time for calls in flight, and stops everything.
//
// If the store loses its contents, serve stops everything except the listeners in the same way, and
// starts it again with a new store. Clients then connect again.
func serve(ctx context.Context, c *config.Config, ready func(*announcement) error, log *slog.Logger, again signals) (err error) {
	g := &server{c: c, ready: ready, log: log, again: again, taken: c, began: time.Now()}
	if g.newKeys, err = c.KeepKeys(); err != nil {
		return err
	}
	warnOfPermissions(c.Data, log)
	traces, stopTraces, err := openTraces(ctx, c, log)
	if err != nil {
		return err
	}
	defer stopTraces()
	g.traces = traces
	if g.listeners, err = listen.Open(ctx, c.Listen); err != nil {
		return err
	}
	defer closeAll(g.listeners) // only an early return needs this: later, the mux closes them
	if g.dev, err = openDevIdentity(ctx, c); err != nil {
		return err
	}
	defer closeAll(g.dev.listeners())
	if g.admin, err = openAdmin(ctx, c, log); err != nil {
		return err
	}
	if g.admin != nil {
		defer closeAll([]net.Listener{g.admin})
	}
	if g.certificate, err = openCertificate(c, append(g.dev.listeners(), g.listeners...)); err != nil {
		return err
	}
	if g.issuers, err = newIssuers(c, g.dev, log); err != nil {
		return err
	}

	g.plugins = newPlugins(c, log)
	beside := rungroup.New(context.WithoutCancel(ctx))
	beside.Go("plugins", g.plugins.Run)
	defer func() {
		beside.Stop()
		err = errors.Join(err, beside.Wait())
	}()
	if err := g.plugins.Launched(ctx); err != nil {
		return err
	}

	g.admission = listen.NewAdmission(listen.AdmissionOptions{Logger: log})
	g.mux = listen.New(g.listeners, listen.Options{TLS: g.certificate.current.Load, Admission: g.admission, Plain: c.MayBePlain, Logger: log})
	doors := rungroup.New(ctx)
	defer context.AfterFunc(beside.Context(), doors.Stop)()
	defer func() {
		doors.Stop()
		err = errors.Join(err, doors.Wait())
	}()
	doors.Go("listen", g.mux.Serve)
	if g.dev != nil {
		doors.Go("dev identity", func(ctx context.Context) error { return g.dev.serve(ctx, g.certificate, log) })
	}
	if g.admin != nil {
		doors.Go("admin", func(ctx context.Context) error { return serveHandler(ctx, g.admin, &g.pages, log) })
	}
	for {
		st, err := awaitStore(doors.Context(), c, g.mux.HTTP(), g.guard(nil, c.Listen...), log)
		if err != nil || st == nil {
			return err
		}
		if err := g.serveFrom(doors.Context(), st); err != nil || doors.Context().Err() != nil {
			return err
		}
	}
}

// server is the part of a gateway that continues when the gateway opens its store again.
type server struct {
	c           *config.Config
	ready       func(*announcement) error
	log         *slog.Logger
	again       signals
	began       time.Time
	newKeys     []config.NewKey
	traces      *tracing.Tracing
	listeners   []net.Listener
	admission   *listen.Admission
	mux         *listen.Mux
	dev         *devEndpoint
	admin       net.Listener
	pages       adminPages
	certificate *certificate
	issuers     auth.Issuers
	plugins     *host.Host

	taken  *config.Config // the configuration that was applied last
	lostAt time.Time      // when serve last noticed that the store had lost its contents, or zero
}

// guard returns hostNames.guard, or a no-op if the public development key is not accepted.
func (g *server) guard(others answers, addresses ...string) func(http.Handler) http.Handler {
	if !g.c.HasDevKey() {
		return func(h http.Handler) http.Handler { return h }
	}
	return newHostNames(g.c, g.certificate, others, addresses...).guard
}

func (g *server) serveFrom(ctx context.Context, st *store) (err error) {
	defer func() { err = errors.Join(err, st.Close()) }()
	behind := rungroup.New(context.WithoutCancel(ctx))
	defer func() {
		behind.Stop()
		err = errors.Join(err, behind.Wait())
	}()
	b, err := g.openBackend(ctx, st, behind)
	if err != nil {
		return err
	}
	if g.taken != g.c {
		b.take(ctx, g.taken)
	}

	front := rungroup.New(ctx)
	defer context.AfterFunc(behind.Context(), front.Stop)()
	bridge := b.serveAMQP(front)
	b.remotes.run(front, b.namespaces, b.directory, bridge.ServeConn)
	tunnel, native := b.serveWebSocket(front, bridge)
	defer b.showAdmin()()
	b.pushes = &pushes{c: b.c, log: b.log, messages: b.pools.Budget, group: front, broker: b.seen("push")}
	b.pushes.set(g.taken.Pushes())
	b.metrics.Pushes(b.pushes.list)
	b.serveHTTPS(front, tunnel, native)
	if err := g.announce(ctx, st); err != nil {
		front.Stop()
		return errors.Join(err, front.Wait())
	}
	front.Go("reload", b.reloads)
	g.log.Info("ready", "version", versionText(), "after", time.Since(g.began).Round(time.Millisecond))

	failed := g.awaitEnd(front, st)
	front.Stop()
	err = errors.Join(failed, front.Wait())
	g.log.Info("stopped serving")
	return err
}

// backend is the part of a gateway that stops and starts again when the store is opened again.
type backend struct {
	*server
	store      *store
	metrics    *metrics.Metrics
	pools      *pools
	process    *admin.Process
	histories  *history.History
	remotes    *remotes
	namespaces *namespaceServer
	directory  *namespaces.Directory
	connected  *clients.Registry
	pushes     *pushes
	hooks      *webhooks.Inbound
}

func (g *server) openBackend(ctx context.Context, st *store, running *rungroup.Group) (b *backend, err error) {
	c, log := g.c, g.log
	b = &backend{server: g, store: st, connected: &clients.Registry{Home: c.Namespace, Log: log}}
	b.metrics = metrics.New(metrics.Options{
		Version: versionText(), MaxEntities: c.Metrics.MaxEntities, MaxNamespaces: c.Metrics.MaxNamespaces, Refresh: c.Metrics.Refresh, Logger: log,
	})
	b.metrics.Plugins(g.plugins.States)
	b.metrics.Admission(g.admission.State)
	if st.file != nil {
		b.metrics.Disk(st.file.Usage)
	}
	if st.redis != nil {
		b.metrics.Flushes(st.redis.Flushes)
		b.metrics.Failures(st.redis.Failures)
	}
	if b.remotes, err = newRemotes(c, log); err != nil {
		return nil, err
	}
	collector := memory.NewCollector()
	running.Go("memory", collector.Run)
	b.pools = newPools(c, collector, log)
	running.Go("memory level", b.pools.watch.Run)
	b.process = &admin.Process{Version: versionText(), Started: g.began, Store: st, Memory: b.pools.watch.Usage, Messages: b.pools.Budget, Namespaces: func() int { return len(b.namespaces.all()) }}
	b.histories = history.New(b.process.Vitals)
	running.Go("history", b.histories.Run)
	b.metrics.Memory(b.pools.Budget, b.pools.Standing, b.pools.watch.Usage)
	bodies, err := bodyDecoder(&c.Serializers, g.plugins, b.pools.decoding)
	if err != nil {
		return nil, err
	}
	b.namespaces = &namespaceServer{
		c: c, log: log, plugins: g.plugins, traces: g.traces, metrics: b.metrics, pools: b.pools, histories: b.histories, remotes: b.remotes,
		observed: g.traces.Store(b.metrics.Store(st)), bodies: bodies, running: running, open: map[string]*admin.Served{},
	}
	if b.directory, err = b.namespaces.openDirectory(ctx, g.issuers, g.certificate.hosts); err != nil {
		return nil, err
	}
	running.Go("namespaces", b.directory.Run)
	g.certificate.serve(b.directory)
	b.metrics.KeyTries(b.directory.KeyTries)
	return b, nil
}

func (b *backend) seen(protocol string) *intercept.Front {
	return intercept.New(b.directory, append(b.traces.Protocol(protocol), b.metrics.Protocol(protocol), b.pools.Budget)...)
}

func (b *backend) serveAMQP(front *rungroup.Group) *amqp.Bridge {
	limits := b.c.Limits()
	bridge := amqp.New(b.seen("amqp"), b.directory, amqp.Options{
		Logger:            b.log,
		Version:           versionText(),
		MaxConnections:    cmp.Or(b.c.AMQP.MaxConnections, limits.MaxConnections),
		MaxPurge:          limits.MaxPurge,
		ExclusiveSessions: limits.ExclusiveSessions,
		MaxSessions:       b.c.AMQP.MaxSessions,
		MaxLinks:          b.c.AMQP.MaxLinks,
		MaxUnsettled:      b.c.AMQP.MaxUnsettled,
		MaxFrameSize:      uint32(b.c.AMQP.MaxFrameSize),
		Pools:             b.pools.Pools,
		Clients:           b.connected,
		DrainGrace:        b.grace(),

		StrictTransactions: limits.Tier != "",
	})
	front.Go("amqp", func(ctx context.Context) error { return bridge.Serve(ctx, b.mux.AMQP()) })
	return bridge
}

func (b *backend) serveWebSocket(front *rungroup.Group, bridge *amqp.Bridge) (tunnel, native http.Handler) {
	t := websocket.NewTunnel(bridge.ServeConn, websocket.TunnelOptions{Origins: b.c.WebSocket.Origins, Logger: b.log})
	front.Go("amqp over websocket", t.Run)
	n := websocket.New(b.seen("websocket"), b.directory, websocket.Options{
		Logger:         b.log,
		Origins:        b.c.WebSocket.Origins,
		Clients:        b.connected,
		Within:         b.directory.Within,
		MaxConnections: b.c.WebSocket.MaxConnections,
		MaxFeeds:       b.c.WebSocket.MaxFeeds,
		MaxFrame:       b.c.WebSocket.MaxFrame,
		Pools:          b.pools.Pools,
		DrainGrace:     b.grace(),
	})
	front.Go("websocket", n.Run)
	b.metrics.Clients(b.connected.Closed, b.connected.Recent)
	return t, n
}

func (b *backend) showAdmin() (hide func()) {
	if b.admin == nil {
		return func() {}
	}
	shown := listen.SameSite(adminHandler(b.metrics.Handler()))
	if listen.IsLoopback(b.c.AdminListen) {
		shown = newHostNames(b.c, b.certificate, b.directory, b.c.AdminListen).guard(shown)
	}
	b.pages.shown.Store(&shown)
	return func() { b.pages.shown.Store(nil) }
}

func (b *backend) serveHTTPS(front *rungroup.Group, tunnel, native http.Handler) {
	over, files, lostAt := b.seen("https"), client.New(), b.lostAt
	b.hooks = webhooks.NewInbound(webhooks.Options{Broker: over, Hooks: b.taken.Hooks(), Budget: b.pools.Budget, Logger: b.log})
	o := https.Options{
		Logger: b.log, Plain: b.c.MayBePlain, Origins: b.c.CORSOrigins, Grace: b.grace(), Pools: b.pools.Pools, Clients: b.connected,
		Answered: b.metrics.HTTP(), Context: b.traces.Requests(),
		Degraded: func() string {
			return cmp.Or(b.pools.degraded(), unreached(b.remotes.all, b.pushes.list(), b.namespaces.openBreakers()))
		},
		Details: func() map[string]any {
			return b.pools.addHealth(b.store.addHealth(pluginHealth(b.plugins), lostAt))
		},
		Routes: map[string]http.Handler{
			websocket.TunnelPath:       tunnel,
			websocket.TunnelPath + "/": tunnel,
			websocket.Path:             native,
			websocket.Path + "/":       native,
			client.ModulePath:          files,
			client.TypesPath:           files,
			webhooks.Path:              b.hooks,
		},
	}
	if b.c.HasConsole() {
		page := console.New()
		o.Home = page
		o.Routes[console.Path] = page
	}
	if b.c.HasDevKey() {
		o.Host = newHostNames(b.c, b.certificate, b.directory, b.c.Listen...).check
	}
	maps.Copy(o.Routes, admin.New(admin.Options{
		Directory: b.directory, Broker: intercept.New(b.directory, b.pools.Budget), Served: b.namespaces.of, Clients: b.connected, History: b.histories, Remotes: b.remotes.all, Pushes: b.pushes.list, Hooks: b.hooks.List, Plugins: b.plugins, Stages: b.namespaces.stages, Metrics: b.metrics.Handler(), Archive: b.store.archive, Logger: b.log,
		Process: b.process,
	}).Routes())
	web := https.New(over, b.directory, o)
	front.Go("https", func(ctx context.Context) error { return web.Serve(ctx, b.mux.HTTP()) })
}

// announce does nothing if the gateway starts again because the store has lost its data.
func (g *server) announce(ctx context.Context, st *store) error {
	if !g.lostAt.IsZero() {
		return nil
	}
	for _, line := range g.c.Skipped {
		g.log.Warn(line)
	}
	return g.ready(&announcement{g, st.About(ctx)})
}

// awaitEnd waits until the gateway must stop. It returns an error only if the store has failed.
func (g *server) awaitEnd(front *rungroup.Group, st *store) error {
	select {
	case <-front.Context().Done():
		g.log.Info("stopping: finishing the work in flight", "grace", g.c.DrainTimeout)
	case <-st.lost():
		g.lostAt, g.began = time.Now(), time.Now()
		g.log.Error("Redis has lost its data: messages, locks, schedules, session states, histories, and all entities and namespaces that are not configured. "+
			"Clients are disconnected, configured entities are created again, then clients are served again",
			"remedy", "if this was not intended, check whether the volume of Redis was lost, FLUSHALL was called or an empty replica was promoted; set appendonly yes")
	case <-st.failed():
		return fmt.Errorf("the message store has stopped, because the disk may have lost the last writes: %w. The gateway has acknowledged nothing since this error. Start the gateway again: it reads the log, and writes again what the disk may have lost", st.file.Err())
	}
	return nil
}

// grace returns the drain time, but at least 1 ms: for 0, bridges would use their default.
func (g *server) grace() time.Duration { return max(g.c.DrainTimeout, time.Millisecond) }

func newLogger(w io.Writer, o config.Log, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// logOf adds the name of a namespace to a log, except that of the gateway's own.
func logOf(c *config.Config, namespace string, log *slog.Logger) *slog.Logger {
	if namespace == c.Namespace {
		return log
	}
	return log.With("namespace", namespace)
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}
