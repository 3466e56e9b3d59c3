package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/tracing"
)

// leastFlush is how long the last traces may take even when the drain time is over.
const leastFlush = 500 * time.Millisecond

// openTraces makes what traces messages, nil if nothing does. stop sends the last
// traces, in what is left of the drain time since ctx ended.
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
			log.Warn("the last traces were not sent", "err", err)
		}
	}, nil
}
