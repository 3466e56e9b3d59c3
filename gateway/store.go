package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/filestore"
	"github.com/crosstown-mq/crosstown/core/memstore"
	"github.com/crosstown-mq/crosstown/core/redisstore"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// store is the chosen engine and, if we started one, its server.
type store struct {
	core.Store
	redis *redisstore.Store // nil where it is another engine
	child *redisstore.Child // nil unless spawned
	file  *filestore.Store  // nil where it is another engine
	notes []string          // for the start-up lines
}

// openStore opens the engine that the configuration names; auto is files in the data directory.
func openStore(ctx context.Context, c *config.Config, log *slog.Logger) (*store, error) {
	switch {
	case c.KeepsFiles():
		return fileStore(c, log)
	case c.Store == "memory":
		available, _ := memory.Available()
		return &store{Store: memstore.New(memstore.Options{Remember: available / 8})}, nil
	case c.Store == "spawn":
		st, err := spawnStore(ctx, spawnedDir(c), log)
		if err == nil && hasEntries(filesDir(c)) {
			st.notes = append(st.notes, leftOver(filesDir(c), "a file store", c.Data, "file", "spawn"))
		}
		return st, err
	default:
		opened, err := redisstore.Open(ctx, c.Store, redisstore.Options{Logger: log})
		if err != nil {
			return nil, fmt.Errorf("%w; or choose another store with --store", err)
		}
		return &store{Store: opened, redis: opened}, nil
	}
}

// filesDir is where the file store keeps its data.
func filesDir(c *config.Config) string { return filepath.Join(c.Data, "messages") }

// spawnedDir is where a spawned Redis keeps its data.
func spawnedDir(c *config.Config) string { return filepath.Join(c.Data, "redis") }

// mostResident is the most memory that the file store takes for messages by default.
const mostResident = 256 << 20

// fileStore opens the file store. What a spawned Redis has left is not touched: the start-up lines
// say how to get at it.
func fileStore(c *config.Config, log *slog.Logger) (*store, error) {
	available, _ := memory.Available()
	opened, err := filestore.Open(filesDir(c), filestore.Options{
		Sync: filestore.Sync(c.Sync), Repair: c.Repair, Memory: min(available/8, mostResident), Remember: available / 8, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("store file: %w; or choose another store with --store", err)
	}
	st := &store{Store: opened, file: opened}
	if hasEntries(spawnedDir(c)) {
		st.notes = append(st.notes, leftOver(spawnedDir(c), "a Redis that an earlier start has spawned", c.Data, "spawn", "file"))
	}
	return st, nil
}

// leftOver says that a directory has the data of another store, and how to move them to this one.
func leftOver(dir, of, data, from, to string) string {
	return fmt.Sprintf("%s has the data of %s: it is neither used nor deleted; --store %s uses it. To move its messages, stop the gateway and run: "+
		"crosstown backup --store %s --data %q | crosstown restore --store %s --data %q", dir, of, from, from, data, to, data)
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

// failed is closed once the store has stopped because of an error of the disk; nil where it cannot.
func (s *store) failed() <-chan struct{} {
	if s.file == nil {
		return nil
	}
	return s.file.Failed()
}

// addHealth adds to what /health tells: what the file store takes; for which causes Redis did
// not serve of late, and when it was found to have lost what it held.
func (s *store) addHealth(told map[string]any, lostAt time.Time) map[string]any {
	if s.file != nil {
		u := s.file.Usage()
		told["store"] = struct {
			DiskBytes   int64 `json:"diskBytes"`
			Segments    int   `json:"segments"`
			MemoryBytes int64 `json:"memoryBytes"`
		}{u.Bytes, u.Segments, u.Resident}
	}
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
