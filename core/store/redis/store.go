package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
)

// Options configure a Store. The zero Options work.
type Options struct {
	// Clock tells the time; nil means the machine's clock corrected by the server's.
	Clock func() time.Time
	// Prefix is the start of all keys and channels, so that several installations can share a
	// Redis. It must contain no braces.
	Prefix string
	// Logger may be nil.
	Logger *slog.Logger
	// Patience is how long calls wait after a server has ceased to serve, because it may restart,
	// or a replica may take over. Default: 2 s; negative: not at all.
	Patience time.Duration

	// Tests set these.
	reads      int // the highest format that the store reads, 0: format
	leastBlock int // so many locks in a block of numbers are kept as one, 0: leastBlock
}

// Store is a core.Store on Redis, or a view of one with its own time.
type Store struct {
	*connection
	time func(now time.Time) time.Time // nil unless this is a view
}

// connection is what a store and its views share.
type connection struct {
	client    conn.Client
	id        string // names this gateway among those that wait for messages, and in the registry
	reads     int    // the highest format that it reads
	least     int    // so many locks in a block of numbers are kept as one
	names     keyspace.Names
	clock     clock
	shards    shards
	recents   recents
	flushed   struct{ appends, publishes, settles, renews flushes }
	doorbells doorbells
	changes   changes
	peers     peers
	remover   remover
	stamp     storeStamp
	failures  conn.Failures

	agreedSince time.Time // since when all gateways read what this one reads; owned by keepPresent

	gate   sync.RWMutex
	closed bool // guarded by gate
	calls  sync.WaitGroup
}

var _ core.Store = (*Store)(nil)

// Open connects to the Redis that url names and checks that it can serve:
//
//	redis://user:password@host:6379/0      rediss:// with TLS
//	unix:///run/redis.sock?db=0            also redis+unix://
//	redis://host1:7000,host2:7000          a cluster; with one host ?cluster=true, or it is found out
//	redis+sentinel://host1:26379,host2:26379/mymaster/0, with ?sentinel_password= where Sentinel wants one
//
// With ?replicas=n what is acknowledged is on n replicas, too; with &fsync=1 on their disks.
//
// Errors name the URL without credentials and what to do.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := connect(url, o)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		s.client.Stop()
		s.client.Background.Wait()
		_ = s.client.RDB.Close() // the first error counts
		return nil, fmt.Errorf("open store at %s: %w", s.client.Endpoint.Safe, err)
	}
	return s, nil
}

// connect makes a store that has not sent anything yet.
func connect(url string, o Options) (*Store, error) {
	t, err := conn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	t.Wait = cmp.Or(o.Patience, 2*time.Second)
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("the key prefix %q contains a brace: use another character", o.Prefix)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	names := keyspace.Names(o.Prefix)
	s := &Store{connection: &connection{
		client: conn.Client{Endpoint: t, Log: o.Logger, Probe: names.Probe},
		id:     rand.Text(), reads: cmp.Or(o.reads, format), least: cmp.Or(o.leastBlock, leastBlock), names: names, clock: clock{given: o.Clock}, shards: shards{all: make(map[place]*shard)},
	}}
	s.client.Look = s.isKnown
	s.connect()
	s.client.Running, s.client.Stop = context.WithCancel(context.Background())
	return s, nil
}

// connect makes a client of the endpoint, which opens connections when it needs them.
func (s *Store) connect() {
	s.client.RDB, s.client.Cluster = s.client.Endpoint.Connect(s.recents.connected)
	s.recents.reset(s.client.Cluster == nil)
}

// reach checks the server and reads its clock.
func (s *Store) reach(ctx context.Context) error {
	bounded, cancel := s.client.Bounded(ctx)
	defer cancel()
	info, err := s.client.RDB.Info(bounded).Result()
	if err != nil {
		return fmt.Errorf("%w: check that Redis runs there, and that user and password are right", err)
	}
	facts := conn.ParseInfo(info)
	if conn.IsOlder(facts, 7, 0) {
		return fmt.Errorf("redis has version %s: use version 7.0 or newer", facts["redis_version"])
	}
	if s.client.Endpoint.Single != nil && facts["cluster_enabled"] == "1" {
		if s.client.Endpoint.Single.Network == "unix" {
			return fmt.Errorf("the server is part of a cluster: set the addresses of the cluster's nodes in --store, because a Unix socket reaches only one node")
		}
		if err := s.client.RDB.Close(); err != nil {
			return fmt.Errorf("change to a cluster connection: %w", err)
		}
		s.client.Endpoint.AsCluster()
		s.connect()
	}
	for range firstReadings {
		if err := s.readClock(bounded); err != nil {
			return err
		}
	}
	return nil
}

// begin checks the server and starts the background tasks.
func (s *Store) begin(ctx context.Context) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	if err := s.client.CheckReplicas(ctx); err != nil {
		return err
	}
	if err := s.checkFormat(ctx); err != nil {
		return err
	}
	bounded, cancel := s.client.Bounded(ctx)
	defer cancel()
	if err := s.readStamp(bounded); err != nil {
		return err
	}
	if err := s.changes.open(bounded, s); err != nil {
		return err
	}
	s.doorbells.init(s)
	s.remover.init(s)
	for _, run := range []func(context.Context){s.keepPresent, s.changes.run, s.doorbells.run, s.remover.run} {
		s.client.Background.Go(func() { run(s.client.Running) })
	}
	return nil
}

// enter begins a call; the caller must end it with calls.Done.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return errClosed
	}
	if err := s.lost(); err != nil {
		return err
	}
	s.calls.Add(1)
	return nil
}

// call runs an operation of a caller: it counts the call, bounds its time and wraps errors. what names
// the operation.
func (s *Store) call(ctx context.Context, what string, f func(ctx context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer s.calls.Done()
	bounded, cancel := s.client.Bounded(ctx)
	defer cancel()
	err := f(bounded)
	if err != nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return s.wrapError(what, err)
}

// Close refuses further calls, waits for those in flight and disconnects. It is safe to call more
// than once.
func (s *Store) Close() error {
	s.gate.Lock()
	already := s.closed
	s.closed = true
	s.gate.Unlock()
	s.calls.Wait()
	s.client.Stop()
	s.client.Background.Wait()
	if already {
		return nil
	}
	if err := s.client.RDB.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Probe writes to every master. It returns nil if an append would succeed now.
func (s *Store) Probe(ctx context.Context) error {
	return s.call(ctx, "probe "+s.client.Endpoint.Safe, func(ctx context.Context) error {
		return s.client.EachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			if s.client.Endpoint.Replicas > 0 {
				return cmp.Or(s.client.Replication.Refusal(node), s.client.ProbeReplicas(ctx, node))
			}
			key, err := s.client.ProbeKey(ctx, node)
			if err != nil {
				return err
			}
			return node.Set(ctx, key, s.millis(), time.Minute).Err()
		})
	})
}

// About describes the engine and warns where acknowledged messages might be lost.
func (s *Store) About(ctx context.Context) core.About {
	a := core.About{Engine: "redis", Detail: s.client.Endpoint.Safe, Durable: true, Skew: s.clock.skew()}
	switch {
	case s.client.Cluster != nil:
		a.Engine = "redis cluster"
	case s.client.Endpoint.Sentinel != nil:
		a.Engine = "redis sentinel"
	}
	bounded, cancel := s.client.Bounded(ctx)
	defer cancel()
	var mu sync.Mutex
	err := s.client.EachMaster(bounded, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		facts := conn.ParseInfo(info)
		warnings := s.client.Warnings(ctx, node, facts)
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

// describe adds the facts of one server's INFO.
func (s *Store) describe(a *core.About, addr string, facts map[string]string) {
	if a.Detail == s.client.Endpoint.Safe {
		a.Detail = facts["redis_version"] + " at " + s.client.Endpoint.Safe
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
