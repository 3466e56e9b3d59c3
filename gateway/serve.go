package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/budget"
	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/bridges/websocket"
	"github.com/crosstown-mq/crosstown/bridges/websocket/client"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/console"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/rungroup"
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
	return serve(c.Context(), settings, c.OutOrStdout(), newLogger(c.ErrOrStderr(), settings.Log, again.level), again)
}

// serve runs a gateway until ctx ends, and stops it in the reverse order of its
// start: no more connections, what is in flight within the drain time, broker,
// plugins, store. The start-up lines go to out once everything is ready.
func serve(ctx context.Context, c *config.Config, out io.Writer, log *slog.Logger, again reloads) (err error) {
	began := time.Now()
	traces, stopTraces, err := openTraces(ctx, c, log)
	if err != nil {
		return err
	}
	defer stopTraces()
	listeners, err := listen.Open(ctx, c.Listen)
	if err != nil {
		return err
	}
	defer closeAll(listeners) // for an early return; the mux closes them otherwise
	dev, err := openDevIdentity(ctx, c)
	if err != nil {
		return err
	}
	defer closeAll(dev.listeners())
	admin, err := openAdmin(ctx, c, log)
	if err != nil {
		return err
	}
	if admin != nil {
		defer closeAll([]net.Listener{admin})
	}
	certificate, err := openCertificate(c, append(dev.listeners(), listeners...))
	if err != nil {
		return err
	}
	issuers, err := newIssuers(c, dev, log)
	if err != nil {
		return err
	}
	st, err := openStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()

	plugins := newPlugins(c, log)
	beside := rungroup.New(context.WithoutCancel(ctx))
	beside.Go("plugins", plugins.Run)
	defer func() {
		beside.Stop()
		err = errors.Join(err, beside.Wait())
	}()
	if err := plugins.Launched(ctx); err != nil {
		return err
	}

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
	tenants := &tenants{
		c: c, store: traces.Store(observed(watched, st)), traces: traces, plugins: plugins, remotes: remotes, watched: watched,
		running: behind, log: log, open: map[string]*tenant{},
	}
	directory, err := tenants.directory(ctx, issuers, certificate.hosts)
	if err != nil {
		return err
	}
	behind.Go("namespaces", directory.Run)
	certificate.issued.serve(directory)

	collector := memory.NewCollector()
	behind.Go("memory", collector.Run)
	messages := newBudget(c, collector.Released, log)
	watched.Memory(messages)
	admission := listen.NewAdmission(listen.AdmissionOptions{Logger: log})
	watched.Admission(admission.State)
	mux := listen.New(listeners, listen.Options{TLS: certificate.config, Admission: admission, Logger: log})
	front := rungroup.New(ctx)
	defer context.AfterFunc(behind.Context(), front.Stop)()
	defer context.AfterFunc(beside.Context(), front.Stop)()
	if dev != nil {
		front.Go("dev identity", func(ctx context.Context) error { return dev.serve(ctx, certificate, log) })
	}
	bridge := amqp.New(traces.Broker(watched.Broker(directory, "amqp"), "amqp"), directory, directory, amqpOptions(c, messages, log))
	remotes.run(front, tenants, directory, bridge.ServeConn)
	front.Go("amqp", func(ctx context.Context) error { return bridge.Serve(ctx, mux.AMQP()) })
	tunnel := websocket.NewTunnel(bridge.ServeConn, websocket.TunnelOptions{Origins: c.WebSocket.Origins, Logger: log})
	front.Go("amqp over websocket", tunnel.Run)
	native := websocket.New(traces.Broker(watched.Broker(directory, "websocket"), "websocket"), directory, directory, nativeOptions(c, messages, log, bridge))
	front.Go("websocket", native.Run)
	watched.Clients(bridge, native)
	if admin != nil {
		pages := listen.SameSite(adminHandler(watched.Handler()))
		if listen.IsLoopback(c.AdminListen) {
			pages = newHostNames(c, certificate, directory, c.AdminListen).guard(pages)
		}
		front.Go("admin", func(ctx context.Context) error { return serveAdmin(ctx, admin, pages, log) })
	}
	plain := traces.Broker(watched.Broker(directory, "https"), "https")
	o := httpsOptions(c, messages, tunnel, native, log)
	o.Answered = watched.HTTP()
	watched.KeyTries(directory.KeyTries)
	if c.HasDevKey() {
		o.Host = newHostNames(c, certificate, directory, c.Listen...).check
	}
	desk := desk{directory: directory, log: log, refusals: refusals.New()}
	(&namespaceDesk{desk, tenants}).routes(o.Routes)
	(&pluginDesk{desk: desk, plugins: plugins, stages: tenants.stages}).routes(o.Routes)
	(&remoteDesk{desk, tenants}).routes(o.Routes)
	(&lookout{desk: desk, metrics: watched.Handler(), tenants: tenants}).routes(o.Routes)
	(&narrator{desk}).routes(o.Routes)
	(&purger{desk}).routes(o.Routes)
	o.Context = traces.Requests()
	o.Details = func() map[string]any { return pluginHealth(plugins) }
	web := https.New(plain, directory, directory, o)
	watched.Streams(web.Streams)
	front.Go("https", func(ctx context.Context) error { return web.Serve(ctx, mux.HTTP()) })
	front.Go("listen", mux.Serve) // last: what it accepts is served at once
	for _, line := range c.Skipped {
		log.Warn(line)
	}
	if err := announce(ctx, out, c, listeners, st, certificate, dev, admin); err != nil {
		front.Stop()
		return errors.Join(err, front.Wait())
	}
	taking := reloader{reloads: again, began: c, certificate: certificate, directory: directory, tenants: tenants, log: log}
	front.Go("reload", taking.run)
	log.Info("ready", "version", versionText(), "after", time.Since(began).Round(time.Millisecond))

	<-front.Context().Done()
	log.Info("stopping: connections are told, work in flight may finish", "grace", c.DrainTimeout)
	err = front.Wait()
	log.Info("stopped serving")
	return err
}

// grace is the drain time as bridges take it: to them, 0 is their default.
func grace(c *config.Config) time.Duration { return max(c.DrainTimeout, time.Millisecond) }

func amqpOptions(c *config.Config, messages *budget.Budget, log *slog.Logger) amqp.Options {
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
		Budget:            messages,
		DrainGrace:        grace(c),

		StrictTransactions: limits.Tier != "",
	}
}

func nativeOptions(c *config.Config, messages *budget.Budget, log *slog.Logger, others ...bridges.Census) websocket.Options {
	return websocket.Options{
		Logger:         log,
		Origins:        c.WebSocket.Origins,
		Home:           c.Namespace,
		Censuses:       others,
		MaxConnections: c.WebSocket.MaxConnections,
		MaxFeeds:       c.WebSocket.MaxFeeds,
		MaxFrame:       c.WebSocket.MaxFrame,
		Budget:         messages,
		DrainGrace:     grace(c),
	}
}

func httpsOptions(c *config.Config, messages *budget.Budget, tunnel, native http.Handler, log *slog.Logger) https.Options {
	files := client.New()
	o := https.Options{Logger: log, Grace: grace(c), Budget: messages, Routes: map[string]http.Handler{
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
