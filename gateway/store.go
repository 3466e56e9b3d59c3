package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/memstore"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// store is the chosen engine and, if we started one, its server.
type store struct {
	core.Store
	redis *redisstore.Store // nil in memory
	child *redisstore.Child // nil unless spawned
}

// openStore opens the engine that the configuration names; auto is a Redis of
// our own where there is a server to start, else memory.
func openStore(ctx context.Context, c *config.Config, log *slog.Logger) (*store, error) {
	kind := c.Store
	if kind == "auto" {
		kind = "memory"
		if _, ok := redisstore.FindServer(); ok {
			kind = "spawn"
		}
	}
	switch kind {
	case "memory":
		return &store{Store: memstore.New(memstore.Options{})}, nil
	case "spawn":
		return spawnStore(ctx, filepath.Join(c.Data, "redis"), log)
	default:
		opened, err := redisstore.Open(ctx, c.Store, redisstore.Options{Logger: log})
		if err != nil {
			return nil, fmt.Errorf("%w; or choose another store with --store", err)
		}
		return &store{Store: opened, redis: opened}, nil
	}
}

func spawnStore(ctx context.Context, dir string, log *slog.Logger) (*store, error) {
	child, err := redisstore.Spawn(ctx, redisstore.SpawnOptions{Dir: dir, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("%w; or keep messages in memory with --store memory", err)
	}
	opened, err := redisstore.Open(ctx, child.URL(), redisstore.Options{Logger: log})
	if err != nil {
		child.Stop()
		return nil, fmt.Errorf("the Redis just started: %w", err)
	}
	return &store{Store: opened, redis: opened, child: child}, nil
}

// lost is closed once the store has lost what it held; nil where it cannot.
func (s *store) lost() <-chan struct{} {
	if s.redis == nil {
		return nil
	}
	return s.redis.Lost()
}

// addHealth adds to what /health tells: for which causes Redis did not serve of
// late, and when it was found to have lost what it held.
func (s *store) addHealth(told map[string]any, lostAt time.Time) map[string]any {
	if s.redis == nil {
		return told
	}
	type storeHealth struct {
		LostData *time.Time           `json:"lostData,omitempty"`
		Failures []redisstore.Failure `json:"failures,omitempty"`
	}
	h := storeHealth{Failures: s.redis.RecentFailures()}
	if !lostAt.IsZero() {
		h.LostData = &lostAt
	}
	if h.LostData != nil || len(h.Failures) > 0 {
		told["store"] = h
	}
	return told
}

// close ends the engine, then its server.
func (s *store) close() error {
	err := s.Close()
	if s.child != nil {
		s.child.Stop()
	}
	return err
}
