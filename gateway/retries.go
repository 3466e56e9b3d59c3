package main

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// retries are how long abandoned messages wait.
func retries(configured []config.Retry) []broker.Retry {
	all := make([]broker.Retry, len(configured))
	for i, r := range configured {
		all[i] = broker.Retry{Entity: r.Entity, Backoff: core.Backoff{First: r.Backoff, Factor: r.Factor, Max: r.Max}, Jitter: r.Jitter}
	}
	return all
}
