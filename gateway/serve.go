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
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func serveCommanded(c *cobra.Command, environ []string) error {
	// Never stopped: a hang-up must not end the gateway, while it begins and ends neither.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	read := func() (*config.Config, error) { return config.Load(c.Flags(), environ) }
	settings, err := read()
	if err != nil {
		return err
	}
	again := reloads{asked: asked, read: read, level: new(slog.LevelVar)}
	_ = again.level.UnmarshalText([]byte(settings.Log.Level)) // validated
	out := c.OutOrStdout()
	return serve(c.Context(), settings, func(a *announcement) error {
		_, err := io.WriteString(out, a.text())
		return err
	}, newLogger(c.ErrOrStderr(), settings.Log, again.level), again)
}

// serve runs a gateway until ctx ends, and stops it in the reverse order of its
// start: no more connections, what is in flight within the drain time, broker,
// store, plugins. It calls ready once everything is.
//
// A store that has lost what it held is begun anew: everything behind the listeners
// ends as if the gateway stopped, so that clients connect again, and starts as if it
// did.
func serve(ctx context.Context, c *config.Config, ready func(*announcement) error, log *slog.Logger, again reloads) (err error) {
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
	defer closeAll(g.listeners) // for an early return; the mux closes them otherwise
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
	g.mux = listen.New(g.listeners, listen.Options{TLS: g.certificate.config, Admission: g.admission, Plain: c.MayBePlain, Logger: log})
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
		doors.Go("admin", func(ctx context.Context) error { return serveAdmin(ctx, g.admin, &g.pages, log) })
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

// server is what of a gateway stays while the store behind it may be another one.
type server struct {
	c           *config.Config
	ready       func(*announcement) error
	log         *slog.Logger
	again       reloads
	began       time.Time
	newKeys     []config.NewKey
	traces      *tracing.Tracing
	listeners   []net.Listener
	admission   *listen.Admission
	mux         *listen.Mux
	dev         *devEndpoint
	admin       net.Listener // nil: there is none
	pages       adminPages   // of the admin listener
	certificate *certificate
	issuers     auth.Issuers
	plugins     *host.Host

	taken  *config.Config // the configuration that was taken up last
	lostAt time.Time      // when the store was last found to have lost what it held; zero: never
}

// guard is hostNames.guard while the public development key is in force.
func (g *server) guard(others answers, addresses ...string) func(http.Handler) http.Handler {
	if !g.c.HasDevKey() {
		return func(h http.Handler) http.Handler { return h }
	}
	return newHostNames(g.c, g.certificate, others, addresses...).guard
}

// serveFrom serves from a store until ctx ends or the store has lost what it held,
// and closes it.
func (g *server) serveFrom(ctx context.Context, st *store) (err error) {
	c, log, traces, plugins := g.c, g.log, g.traces, g.plugins
	defer func() { err = errors.Join(err, st.Close()) }()
	watched := newMetrics(c, log)
	watched.Plugins(plugins.States)
	behind := rungroup.New(context.WithoutCancel(ctx))
	defer func() {
		behind.Stop()
		err = errors.Join(err, behind.Wait())
	}()
	remotes, err := newRemotes(c, log)
	if err != nil {
		return err
	}
	histories := history.New()
	behind.Go("history", histories.Run)
	collector := memory.NewCollector()
	behind.Go("memory", collector.Run)
	shared := newPools(c, collector, log)
	behind.Go("memory level", shared.watch.Run)
	watched.Memory(shared.messages, shared.connections, shared.watch.Usage)
	served := &namespaceServer{
		c: c, store: traces.Store(observed(watched, st)), traces: traces, plugins: plugins, remotes: remotes, watched: watched, memory: shared.messages, histories: histories,
		running: behind, log: log, open: map[string]*admin.Served{},
	}
	directory, err := served.directory(ctx, g.issuers, g.certificate.hosts)
	if err != nil {
		return err
	}
	behind.Go("namespaces", directory.Run)
	g.certificate.issued.serve(directory)
	taking := reloader{reloads: g.again, began: c, certificate: g.certificate, directory: directory, served: served, log: log, taken: &g.taken}
	if g.taken != c {
		taking.take(ctx, g.taken)
	}

	watched.Admission(g.admission.State)
	if st.file != nil {
		watched.Disk(st.file.Usage)
	}
	front := rungroup.New(ctx)
	defer context.AfterFunc(behind.Context(), front.Stop)()
	seen := func(protocol string) *intercept.Front {
		return intercept.New(directory, append(traces.Protocol(protocol), watched.Protocol(protocol), shared.messages)...)
	}
	overAMQP, overWebSocket, overHTTPS := seen("amqp"), seen("websocket"), seen("https")
	bridge := amqp.New(overAMQP, overAMQP, directory, amqpOptions(c, shared, log))
	remotes.run(front, served, directory, bridge.ServeConn)
	front.Go("amqp", func(ctx context.Context) error { return bridge.Serve(ctx, g.mux.AMQP()) })
	tunnel := websocket.NewTunnel(bridge.ServeConn, websocket.TunnelOptions{Origins: c.WebSocket.Origins, Logger: log})
	front.Go("amqp over websocket", tunnel.Run)
	connected := &clients.Registry{Home: c.Namespace, Log: log}
	connected.Add(bridge)
	native := websocket.New(overWebSocket, overWebSocket, directory, nativeOptions(c, directory, shared, connected, log))
	front.Go("websocket", native.Run)
	watched.Clients(connected.Closed, bridge, native)
	if g.admin != nil {
		shown := listen.SameSite(adminHandler(watched.Handler()))
		if listen.IsLoopback(c.AdminListen) {
			shown = newHostNames(c, g.certificate, directory, c.AdminListen).guard(shown)
		}
		g.pages.show(shown)
		defer g.pages.show(nil)
	}
	taking.pushes = &pushes{c: c, group: front, broker: seen("push"), messages: shared.messages, log: log}
	taking.pushes.set(g.taken.Pushes())
	watched.Pushes(taking.pushes.list)
	o := httpsOptions(c, shared, tunnel, native, log)
	o.Answered = watched.HTTP()
	watched.KeyTries(directory.KeyTries)
	if c.HasDevKey() {
		o.Host = newHostNames(c, g.certificate, directory, c.Listen...).check
	}
	taking.hooks = webhooks.NewInbound(webhooks.Options{Broker: overHTTPS, Hooks: g.taken.Hooks(), Budget: shared.messages, Logger: log})
	maps.Copy(o.Routes, admin.New(admin.Options{
		Directory: directory, Broker: intercept.New(directory, shared.messages), Served: served.of, Clients: connected, History: histories, Remotes: remotes.all, Pushes: taking.pushes.list, Hooks: taking.hooks.List, Plugins: plugins, Stages: served.stages, Metrics: watched.Handler(), Logger: log,
		Process: admin.Process{Version: versionText(), Started: g.began, Store: st, Memory: shared.watch.Usage, Messages: shared.messages, Namespaces: served.count},
	}).Routes())
	o.Routes[webhooks.Path] = taking.hooks
	o.Context = traces.Requests()
	lostAt := g.lostAt
	o.Degraded = shared.degraded
	o.Details = func() map[string]any { return shared.addHealth(st.addHealth(pluginHealth(plugins), lostAt)) }
	web := https.New(overHTTPS, overHTTPS, directory, o)
	watched.Streams(web.Streams)
	connected.Add(web)
	front.Go("https", func(ctx context.Context) error { return web.Serve(ctx, g.mux.HTTP()) })
	if g.lostAt.IsZero() {
		for _, line := range c.Skipped {
			log.Warn(line)
		}
		if err := g.ready(&announcement{c, g.listeners, st, st.About(ctx), g.certificate, g.dev, g.admin, g.newKeys}); err != nil {
			front.Stop()
			return errors.Join(err, front.Wait())
		}
	}
	front.Go("reload", taking.run)
	log.Info("ready", "version", versionText(), "after", time.Since(g.began).Round(time.Millisecond))

	var failed error
	select {
	case <-front.Context().Done():
		log.Info("stopping: connections are told, work in flight may finish", "grace", c.DrainTimeout)
	case <-st.lost():
		g.lostAt, g.began = time.Now(), time.Now()
		log.Error("Redis has lost what it held: messages, locks, schedules, session states, histories, and all entities and namespaces that are not configured. "+
			"Clients are disconnected, configured entities are made anew, then clients are served again",
			"remedy", "if that was not meant, see whether its volume was lost, FLUSHALL was called or an empty replica was promoted; set appendonly yes")
		front.Stop()
	case <-st.failed():
		failed = fmt.Errorf("the message store has stopped, because it is not known what the disk has kept: %w. Nothing was acknowledged since; the next start looks what is there", st.file.Err())
		front.Stop()
	}
	err = errors.Join(failed, front.Wait())
	log.Info("stopped serving")
	return err
}

// grace is the drain time as bridges take it: to them, 0 is their default.
func grace(c *config.Config) time.Duration { return max(c.DrainTimeout, time.Millisecond) }

func amqpOptions(c *config.Config, shared *pools, log *slog.Logger) amqp.Options {
	limits := c.Limits()
	return amqp.Options{
		Logger:            log,
		MaxConnections:    cmp.Or(c.AMQP.MaxConnections, limits.MaxConnections),
		MaxPurge:          limits.MaxPurge,
		ExclusiveSessions: limits.ExclusiveSessions,
		MaxSessions:       c.AMQP.MaxSessions,
		MaxLinks:          c.AMQP.MaxLinks,
		MaxUnsettled:      c.AMQP.MaxUnsettled,
		MaxFrameSize:      uint32(c.AMQP.MaxFrameSize),
		Budget:            shared.messages,
		Standing:          shared.connections,
		DrainGrace:        grace(c),

		StrictTransactions: limits.Tier != "",
	}
}

func nativeOptions(c *config.Config, directory *namespaces.Directory, shared *pools, connected *clients.Registry, log *slog.Logger) websocket.Options {
	return websocket.Options{
		Logger:         log,
		Origins:        c.WebSocket.Origins,
		Clients:        connected,
		Within:         directory.Within,
		MaxConnections: c.WebSocket.MaxConnections,
		MaxFeeds:       c.WebSocket.MaxFeeds,
		MaxFrame:       c.WebSocket.MaxFrame,
		Budget:         shared.messages,
		Standing:       shared.connections,
		Streams:        shared.streams,
		DrainGrace:     grace(c),
	}
}

func httpsOptions(c *config.Config, shared *pools, tunnel, native http.Handler, log *slog.Logger) https.Options {
	files := client.New()
	o := https.Options{Logger: log, Plain: c.MayBePlain, Origins: c.CORSOrigins, Grace: grace(c), Budget: shared.messages, Streams: shared.streams, Routes: map[string]http.Handler{
		websocket.TunnelPath:       tunnel,
		websocket.TunnelPath + "/": tunnel,
		websocket.Path:             native,
		websocket.Path + "/":       native,
		client.ModulePath:          files,
		client.TypesPath:           files,
	}}
	if c.HasConsole() {
		page := console.New()
		o.Home = page
		o.Routes[console.Path] = page
	}
	return o
}

func newLogger(w io.Writer, o config.Log, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close()
	}
}
