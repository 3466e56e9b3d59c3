package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file"
	memstore "github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type store struct {
	core.Store
	redis *redis.Store // nil if the store is not a Redis store
	file  *file.Store  // nil if the store is not a file store
}

func openStore(ctx context.Context, c *config.Config, log *slog.Logger) (*store, error) {
	available, _ := memory.Available(memorySetting(c))
	of := partsOf(available)
	switch {
	case c.KeepsFiles():
		opened, err := file.Open(filesDir(c), file.Options{
			Sync: file.Sync(c.Sync), Repair: c.Repair, Memory: of.cache, Remember: of.remembered, Logger: log,
		})
		if err != nil {
			return nil, fmt.Errorf("cannot open the file store: %w. To use another directory, set --data; to use another store, set --store", err)
		}
		return &store{Store: opened, file: opened}, nil
	case c.Store == "memory":
		return &store{Store: memstore.New(memstore.Options{Remember: of.remembered})}, nil
	default:
		opened, err := redis.Open(ctx, c.Store, redis.Options{Memory: of.cache, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("%w. To use another store, set --store", err)
		}
		return &store{Store: opened, redis: opened}, nil
	}
}

func filesDir(c *config.Config) string { return filepath.Join(c.Data, "messages") }

// lost returns a channel that closes when Redis has lost its data; nil for other stores.
func (s *store) lost() <-chan struct{} {
	if s.redis == nil {
		return nil
	}
	return s.redis.Lost()
}

// failed returns a channel that closes when a disk error stops the file store; nil for others.
func (s *store) failed() <-chan struct{} {
	if s.file == nil {
		return nil
	}
	return s.file.Failed()
}

func (s *store) addHealth(told map[string]any, lostAt time.Time) map[string]any {
	if s.file != nil {
		told["store"] = s.file.Usage()
	}
	if s.redis == nil {
		return told
	}
	type storeHealth struct {
		LostData time.Time       `json:"lostData,omitzero"`
		Failures []redis.Failure `json:"failures,omitempty"`
	}
	if h := (storeHealth{lostAt, s.redis.RecentFailures()}); !lostAt.IsZero() || len(h.Failures) > 0 {
		told["store"] = h
	}
	return told
}

func (s *store) archive(ctx context.Context) (*file.Archive, error) {
	switch {
	case s.file != nil:
		return s.file.Archive(ctx, versionText())
	case s.redis != nil:
		return nil, core.Refuse(core.NotImplemented, "A gateway cannot back up a Redis store: run crosstown backup --store URL, without stopping the gateways, or use Redis' own snapshots.")
	}
	return nil, core.Refuse(core.NotImplemented, "The store is in memory and is lost when the gateway ends: there is nothing to back up.")
}

const (
	storeRetry    = 500 * time.Millisecond
	storeReminder = time.Minute
)

// awaitStore opens the store. While Redis is unavailable, it retries for the time StoreWait, and
// /health on ln gives the reason. If ctx ends first, the store is nil.
func awaitStore(ctx context.Context, c *config.Config, ln net.Listener, guard func(http.Handler) http.Handler, log *slog.Logger) (*store, error) {
	startup := &startupServer{}
	startup.tell("The gateway is opening its message store.")
	answering, stop := context.WithCancel(context.WithoutCancel(ctx))
	var answered sync.WaitGroup
	answered.Go(func() { _ = serveHandler(answering, ln, guard(startup), log) })
	defer answered.Wait()
	defer stop()
	began, told, lastCause := time.Now(), time.Time{}, ""
	for {
		st, err := openStore(ctx, c, log)
		if err == nil {
			return st, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		cause, away := redis.Away(err)
		if !away || time.Since(began) >= c.StoreWait {
			return nil, err
		}
		startup.tell("The gateway is waiting for its message store: " + err.Error())
		if cause != lastCause || time.Since(told) >= storeReminder {
			told, lastCause = time.Now(), cause
			log.Warn("waiting for Redis; clients wait, and /health answers 503 (with --store-wait 0 the gateway would end instead)", "cause", cause, "err", err)
		}
		if !wake.After(ctx, storeRetry) {
			return nil, nil
		}
	}
}

type startupServer struct{ reason atomic.Pointer[string] }

func (w *startupServer) tell(reason string) { w.reason.Store(&reason) }

func (w *startupServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", "1")
	if r.URL.Path != "/health" {
		http.Error(rw, "The message store cannot be reached. Try again.", http.StatusServiceUnavailable)
		return
	}
	h.Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(rw).Encode(struct { // ignore an error: the client may have disconnected
		Status string `json:"status"`
		Reason string `json:"reason"`
	}{"unhealthy", *w.reason.Load()})
}
