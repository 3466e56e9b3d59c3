package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file"
	memstore "github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
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
		opened, err := redis.Open(ctx, c.Store, redis.Options{Logger: log})
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
		u := s.file.Usage()
		told["store"] = struct {
			DiskBytes   int64 `json:"diskBytes"`
			FreeBytes   int64 `json:"freeBytes"`
			Segments    int   `json:"segments"`
			MemoryBytes int64 `json:"memoryBytes"`
		}{u.Bytes, u.Free, u.Segments, u.Resident}
	}
	if s.redis == nil {
		return told
	}
	type storeHealth struct {
		LostData *time.Time      `json:"lostData,omitempty"`
		Failures []redis.Failure `json:"failures,omitempty"`
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

func (s *store) archive(ctx context.Context) (admin.Archive, error) {
	switch {
	case s.file != nil:
		return s.file.Archive(ctx, versionText())
	case s.redis != nil:
		return nil, core.Refuse(core.NotImplemented, "A gateway cannot back up a Redis store: run crosstown backup --store URL, without stopping the gateways, or use Redis' own snapshots.")
	}
	return nil, core.Refuse(core.NotImplemented, "The store is in memory and is lost when the gateway ends: there is nothing to back up.")
}
