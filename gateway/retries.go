package main

import (
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// retries are how long abandoned messages wait.
func retries(c *config.Config) []broker.Retry {
	all := make([]broker.Retry, len(c.Retries))
	for i, r := range c.Retries {
		all[i] = broker.Retry{Entity: r.Entity, Backoff: core.Backoff{First: r.Backoff, Factor: r.Factor, Max: r.Max}, Jitter: r.Jitter}
	}
	return all
}
