package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

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
