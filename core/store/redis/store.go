package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/catalogue"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/doorbell"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// Store is a core.Store on Redis, or a view of one with its own time (see WithTime).
type Store struct {
	*connection
	time func(now time.Time) time.Time // nil unless this is a view
}

// connection is shared by a store and its views.
type connection struct {
	server server.Server
	*catalogue.Catalogue
	least     int           // minimum number of locks in a block
	lingers   time.Duration // how long a partition knows the key of a move after Forget
	shards    shards
	lostLocks lostLocks
	start     func(*Store, *shard) // the batchers of a new shard
	recents   recents
	receipts  atomic.Int64 // keys made for receipts
	denied    atomic.Int64 // Unix seconds: when Redis last denied a permission to store messages
	flushed   struct{ appends, publishes, settles, renews batching.Counter }
	doorbells doorbell.Bells
}

var _ core.Store = (*Store)(nil)

// Close refuses new calls, waits for those in progress and disconnects. It may be called again.
func (s *Store) Close() error {
	if s.server.Close() {
		return nil
	}
	if err := s.server.RDB.Close(); err != nil {
		return fmt.Errorf("cannot close the store: %w", err)
	}
	return nil
}

func (s *Store) Now() time.Time {
	now := s.server.Now()
	if s.time != nil {
		now = s.time(now)
	}
	return now
}

// WithTime returns a view of the store that uses f(now) as the time. The view has separate shards
// (what this gateway keeps about partitions in use).
func (s *Store) WithTime(f func(now time.Time) time.Time) core.Store {
	return &Store{connection: s.connection, time: f}
}

func (s *Store) millis() int64 { return s.Now().UnixMilli() }

// Probe writes to every master. It returns nil if Append would succeed now.
func (s *Store) Probe(ctx context.Context) error {
	return s.server.Call(ctx, "probe "+s.server.Endpoint.Safe, func(ctx context.Context) error {
		return s.server.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			if s.server.Endpoint.Replicas > 0 {
				return cmp.Or(s.server.Replication.Refusal(node), s.server.ProbeReplicas(ctx, node))
			}
			key, err := s.server.ProbeKey(ctx, node)
			if err != nil {
				return err
			}
			return node.Set(ctx, key, s.millis(), time.Minute).Err()
		})
	})
}

// About warns about each way in which the engine can lose acknowledged messages.
func (s *Store) About(ctx context.Context) core.About {
	a := core.About{Engine: "redis", Detail: s.server.Endpoint.Safe, Durable: true, Skew: s.server.Clock.Skew()}
	switch {
	case s.server.Cluster != nil:
		a.Engine = "redis cluster"
	case s.server.Endpoint.Sentinel != nil:
		a.Engine = "redis sentinel"
	}
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	var mu sync.Mutex
	err := s.server.EachMaster(bounded, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		facts := conn.ParseInfo(info)
		warnings := s.server.Warnings(ctx, node, facts)
		mu.Lock()
		defer mu.Unlock()
		s.describe(&a, node.Options().Addr, facts)
		a.Warnings = append(a.Warnings, warnings...)
		return nil
	})
	if err != nil {
		a.Durable = false
		a.Warnings = append(a.Warnings, "The gateway cannot determine whether Redis keeps messages: "+err.Error())
	}
	return a
}

func (s *Store) describe(a *core.About, addr string, facts map[string]string) {
	if a.Detail == s.server.Endpoint.Safe {
		a.Detail = facts["redis_version"] + " at " + s.server.Endpoint.Safe
	}
	if facts["aof_enabled"] != "1" {
		a.Durable = false
		a.Warnings = append(a.Warnings, fmt.Sprintf("Redis at %s may lose acknowledged messages when it restarts: set appendonly yes.", addr))
	}
	if policy := facts["maxmemory_policy"]; policy != "noeviction" && facts["maxmemory"] != "0" {
		a.Durable = false
		a.Warnings = append(a.Warnings, fmt.Sprintf("Redis at %s may evict messages when its memory is full (maxmemory-policy %s): set maxmemory-policy noeviction.", addr, policy))
	}
}

// Away reports whether Open failed because the server is unavailable now, but may be available
// later with the same settings. cause is the reason.
func Away(err error) (cause string, away bool) { return conn.IsAway(err) }

type Failure = conn.Failure

func (s *Store) Failures() []Failure { return s.server.Failures.All() }

const recentFailure = time.Minute

func (s *Store) RecentFailures() []Failure {
	return slices.DeleteFunc(s.Failures(), func(f Failure) bool { return time.Since(f.Last) > recentFailure })
}

// Lost returns a channel that is closed when the server has lost its data. From then on, all calls
// return Busy: close the store, and open it again to create a new one. If the URL has replicas, the
// channel stays open, and calls return Busy until the data are available again.
func (s *Store) Lost() <-chan struct{} { return s.server.Stamp.Lost }

type Flushes = batching.Histogram

func (s *Store) Flushes() []Flushes {
	f := &s.flushed
	return []Flushes{f.appends.Histogram("append"), f.publishes.Histogram("publish"), f.settles.Histogram("settle"), f.renews.Histogram("renew")}
}
