package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
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
	rdb       redis.UniversalClient
	cluster   *redis.ClusterClient // equal to rdb if that is a cluster
	endpoint  endpoint
	id        string // names this gateway among those that wait for messages, and in the registry
	reads     int    // the highest format that it reads
	least     int    // so many locks in a block of numbers are kept as one
	names     keyspace.Names
	log       *slog.Logger
	clock     clock
	shards    shards
	recents   recents
	flushed   struct{ appends, publishes, settles, renews flushes }
	doorbells doorbells
	changes   changes
	peers     peers
	remover   remover
	stamp     storeStamp
	failures  failures

	replication replication
	background  sync.WaitGroup  // clock, doorbells, changes, remover, probes of replicas
	running     context.Context // until stop
	stop        context.CancelFunc

	agreedSince time.Time // since when all gateways read what this one reads; owned by keepPresent

	gate   sync.RWMutex
	closed bool // guarded by gate
	calls  sync.WaitGroup
}

var _ core.Store = (*Store)(nil)

// callTimeout bounds one exchange with Redis, even if its caller waits longer.
const callTimeout = 10 * time.Second

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
		s.stop()
		s.background.Wait()
		_ = s.rdb.Close() // the first error counts
		return nil, fmt.Errorf("open store at %s: %w", s.endpoint.safe, err)
	}
	return s, nil
}

// connect makes a store that has not sent anything yet.
func connect(url string, o Options) (*Store, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	t.wait = cmp.Or(o.Patience, 2*time.Second)
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("the key prefix %q contains a brace: use another character", o.Prefix)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{connection: &connection{
		id: rand.Text(), reads: cmp.Or(o.reads, format), least: cmp.Or(o.leastBlock, leastBlock), log: o.Logger, endpoint: t, names: keyspace.Names(o.Prefix), clock: clock{given: o.Clock}, shards: shards{all: make(map[place]*shard)},
	}}
	s.rdb, s.cluster = s.endpoint.connect(&s.recents)
	s.running, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// reach checks the server and reads its clock.
func (s *Store) reach(ctx context.Context) error {
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	info, err := s.rdb.Info(bounded).Result()
	if err != nil {
		return fmt.Errorf("%w: check that Redis runs there, and that user and password are right", err)
	}
	facts := parseInfo(info)
	if isOlder(facts, 7, 0) {
		return fmt.Errorf("redis has version %s: use version 7.0 or newer", facts["redis_version"])
	}
	if s.endpoint.single != nil && facts["cluster_enabled"] == "1" {
		if s.endpoint.single.Network == "unix" {
			return fmt.Errorf("the server is part of a cluster: set the addresses of the cluster's nodes in --store, because a Unix socket reaches only one node")
		}
		if err := s.rdb.Close(); err != nil {
			return fmt.Errorf("change to a cluster connection: %w", err)
		}
		s.endpoint.asCluster()
		s.recents.records = nil
		s.rdb, s.cluster = s.endpoint.connect(&s.recents)
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
	if err := s.checkReplicas(ctx); err != nil {
		return err
	}
	if err := s.checkFormat(ctx); err != nil {
		return err
	}
	bounded, cancel := s.bounded(ctx)
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
		s.background.Go(func() { run(s.running) })
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

// bounded returns the context of one exchange with Redis.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// Close refuses further calls, waits for those in flight and disconnects. It is safe to call more
// than once.
func (s *Store) Close() error {
	s.gate.Lock()
	already := s.closed
	s.closed = true
	s.gate.Unlock()
	s.calls.Wait()
	s.stop()
	s.background.Wait()
	if already {
		return nil
	}
	if err := s.rdb.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Probe writes to every master. It returns nil if an append would succeed now.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer s.calls.Done()
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	err := s.eachMaster(bounded, func(ctx context.Context, node *redis.Client) error {
		if s.endpoint.replicas > 0 {
			return cmp.Or(s.replication.refusal(node), s.probeReplicas(ctx, node))
		}
		key, err := s.probeKey(ctx, node)
		if err != nil {
			return err
		}
		return node.Set(ctx, key, s.millis(), time.Minute).Err()
	})
	return s.wrapError("probe "+s.endpoint.safe, err)
}

// probeKey returns a key that the node owns: in a cluster, one in its slots.
func (s *Store) probeKey(ctx context.Context, node *redis.Client) (string, error) {
	if s.cluster == nil {
		return s.names.Probe(0), nil
	}
	for i := range 10_000 {
		key := s.names.Probe(i)
		owner, err := s.cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", err
		}
		if owner == node {
			return key, nil
		}
	}
	return "", fmt.Errorf("master %s owns no slot for a test write: %w", node.Options().Addr, core.Busy)
}

// eachMaster calls f for every master, or for the single server.
func (s *Store) eachMaster(ctx context.Context, f func(ctx context.Context, node *redis.Client) error) error {
	if s.cluster != nil {
		return s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			slots, err := ownsSlots(ctx, node)
			if err != nil || !slots {
				return err
			}
			return f(ctx, node)
		})
	}
	node, ok := s.rdb.(*redis.Client)
	if !ok {
		return core.Internal
	}
	return f(ctx, node)
}

// ownsSlots reports whether a cluster's master owns slots.
func ownsSlots(ctx context.Context, node *redis.Client) (bool, error) {
	text, err := node.ClusterNodes(ctx).Result()
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.Contains(fields[2], "myself") {
			return len(fields) > 8, nil
		}
	}
	return false, nil
}

// About describes the engine and warns where acknowledged messages might be lost.
func (s *Store) About(ctx context.Context) core.About {
	a := core.About{Engine: "redis", Detail: s.endpoint.safe, Durable: true, Skew: s.clock.skew()}
	switch {
	case s.cluster != nil:
		a.Engine = "redis cluster"
	case s.endpoint.sentinel != nil:
		a.Engine = "redis sentinel"
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	var mu sync.Mutex
	err := s.eachMaster(bounded, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		facts := parseInfo(info)
		warnings := s.warnings(ctx, node, facts)
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
	if a.Detail == s.endpoint.safe {
		a.Detail = facts["redis_version"] + " at " + s.endpoint.safe
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

// parseInfo parses the lines of INFO.
func parseInfo(info string) map[string]string {
	facts := make(map[string]string)
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[key] = value
		}
	}
	return facts
}

// isOlder reports whether a server is older than a version.
func isOlder(facts map[string]string, major, minor int) bool {
	parts := strings.Split(facts["redis_version"]+".0", ".")
	return atoi(parts[0]) < major || atoi(parts[0]) == major && atoi(parts[1]) < minor
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
