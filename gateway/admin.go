package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
)

const adminGrace = time.Second

func openAdmin(ctx context.Context, c *config.Config, log *slog.Logger) (net.Listener, error) {
	if c.AdminListen == "" {
		return nil, nil
	}
	listeners, err := listen.Open(ctx, []string{c.AdminListen})
	if err != nil {
		return nil, fmt.Errorf("cannot open the admin listener: %w (for this listener, use --admin-listen instead of --listen)", err)
	}
	if !listen.IsLoopback(c.AdminListen) {
		log.Warn("other machines may connect to the admin listener, which requires no token", "address", c.AdminListen)
	}
	return besideAdmission(log).Guard(listeners[0]), nil
}

const besideConnections = 64

// besideAdmission returns the connection limits of an additional listener. Connections to it do not
// count toward the limits of the main listeners.
func besideAdmission(log *slog.Logger) *listen.Admission {
	return listen.NewAdmission(listen.AdmissionOptions{Connections: besideConnections, Strangers: besideConnections, Logger: log})
}

// adminHandler serves /metrics and /debug/pprof/ without authentication. It leaves out
// /debug/pprof/cmdline, because the command line may contain keys.
func adminHandler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	return mux
}

type adminPages struct{ shown atomic.Pointer[http.Handler] }

func (p *adminPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := p.shown.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, "The gateway is waiting for its message store.", http.StatusServiceUnavailable)
}

// serveHandler serves h until ctx ends. Requests in flight then have adminGrace to finish.
func serveHandler(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminGrace)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(ln)
	if stop() {
		return fmt.Errorf("cannot serve on %s: %w", ln.Addr(), err)
	}
	<-stopped
	return nil
}

// leastFlush is the minimum time for sending the last traces, even if the drain time has passed.
const leastFlush = 500 * time.Millisecond

// openTraces starts tracing. It returns a nil t if no tracing is configured. stop sends the last
// traces within the rest of the drain time.
func openTraces(ctx context.Context, c *config.Config, log *slog.Logger) (t *tracing.Tracing, stop func(), err error) {
	t, err = tracing.New(ctx, tracing.Options{
		Endpoint: c.Traces.Endpoint, Protocol: c.Traces.Protocol, Sample: c.Traces.Sample, Version: versionText(), Logger: log,
	})
	if t == nil {
		return nil, func() {}, err
	}
	var stopping atomic.Pointer[time.Time]
	context.AfterFunc(ctx, func() { stopping.Store(new(time.Now())) })
	return t, func() {
		left := c.DrainTimeout
		if since := stopping.Load(); since != nil {
			left -= time.Since(*since)
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(left, leastFlush))
		defer cancel()
		if err := t.Stop(last); err != nil {
			log.Warn("cannot send the last traces", "err", err)
		}
	}, nil
}

// warnOfPermissions warns if other users may write to the data directory, or read keys in it. It
// ignores a missing directory, which the gateway creates with permissions for the owner only.
func warnOfPermissions(dir string, log *slog.Logger) {
	if runtime.GOOS == "windows" { // file permissions are different there
		return
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o022 != 0 {
		log.Warn("other users may write to the data directory: they can replace keys and messages", "directory", dir, "permissions", info.Mode().Perm().String(), "remedy", "chmod 700 "+dir)
	}
	const ofPolicy = "other users may read the key of a policy: they can use its rights"
	for _, kind := range [...]struct{ pattern, warning string }{
		{"ca.key.pem", "other users may read the key of the development CA: they can impersonate this gateway"},
		{"identity.key.pem", "other users may read the key of the development identity: they can issue tokens"},
		{"keys/*/policies/*", ofPolicy},
		{"keys/*/entities/*/*", ofPolicy},
	} {
		files, _ := filepath.Glob(filepath.Join(dir, kind.pattern)) // the patterns are valid
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Mode()&fs.ModeType == 0 && info.Mode().Perm()&0o077 != 0 {
				log.Warn(kind.warning, "file", file, "permissions", info.Mode().Perm().String(), "remedy", "chmod 600 "+file)
			}
		}
	}
}
