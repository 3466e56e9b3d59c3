package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/catalogue"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/doorbell"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// Options configure a Store. The zero value is valid.
type Options struct {
	// Clock returns the time. nil means the machine's clock, corrected by Redis' clock.
	Clock func() time.Time
	// Prefix is the start of all keys and channels, so that several installations can share a
	// Redis. It must not contain braces.
	Prefix string
	// Logger may be nil.
	Logger *slog.Logger
	// Patience is how long calls wait for an unavailable server, because it may restart or a
	// replica may be promoted. The default is 2 s. With a negative value, calls do not wait.
	Patience time.Duration
	// Memory bounds the bytes of the messages that the store keeps in memory, so that it need not
	// read what it has just stored. The default, and the maximum, is 32 MiB.
	Memory int64

	// Tests set these.
	reads      int           // the highest format that the store reads; 0: server.Format
	leastBlock int           // 0: the constant leastBlock
	lingers    time.Duration // 0: the constant keyLingers
}

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
	recents   recents
	flushed   struct{ appends, publishes, settles, renews batching.Counter }
	doorbells doorbell.Bells
}

var _ core.Store = (*Store)(nil)

// Open connects to the Redis that url names and checks that it can serve:
//
//	redis://user:password@host:6379/0      rediss:// with TLS
//	unix:///run/redis.sock?db=0            also redis+unix://
//	redis://host1:7000,host2:7000          a cluster; with one host ?cluster=true, or it is found out
//	redis+sentinel://host1:26379,host2:26379/mymaster/0, with ?sentinel_password= where Sentinel wants one
//
// With ?replicas=n, acknowledged data are also on n replicas; with &fsync=1, on their disks.
//
// Errors contain the URL without credentials, and the remedy.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := connect(url, o)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		s.server.Stop()
		s.server.Background.Wait()
		_ = s.server.RDB.Close()
		return nil, fmt.Errorf("cannot open the store at %s: %w", s.server.Endpoint.Safe, err)
	}
	return s, nil
}

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
		server: server.Server{Client: conn.Client{Endpoint: t, Log: o.Logger, Probe: names.Probe}, ID: rand.Text(), Reads: cmp.Or(o.reads, server.Format), Names: names, Clock: server.Clock{Given: o.Clock}, Turns: server.NewTurns()},
		least:  cmp.Or(o.leastBlock, leastBlock), lingers: cmp.Or(o.lingers, keyLingers), shards: shards{all: make(map[place]*shard)},
		recents: recents{limit: int(min(cmp.Or(o.Memory, mostRecent), mostRecent))},
	}}
	s.server.EndLocks = func(ctx context.Context) error {
		var err error
		if ended, _ := s.server.Peers.Ended(""); len(ended) > 0 {
			err = s.doorbells.EndLocks(ctx)
		}
		return cmp.Or(err, s.endLostLocks(ctx))
	}
	s.server.Look = s.server.IsKnown
	s.connect()
	s.server.Running, s.server.Stop = context.WithCancel(context.Background())
	return s, nil
}

func (s *Store) connect() {
	s.server.RDB, s.server.Cluster = s.server.Endpoint.Connect(s.connected)
	s.recents.reset(s.server.Cluster == nil)
}

// connected prepares a new connection, whose server may have restarted without the latest messages
// and without any scripts. It loads the scripts for sweeps: appendPlain pipelines a sweep and the
// messages, and a server that did not know the sweep would store the messages without it, and
// without the receipt.
func (s *Store) connected(ctx context.Context, c *redis.Conn) error {
	s.recents.connected()
	sources, shas := script.Sweep.Variants()
	known, err := c.ScriptExists(ctx, shas...).Result()
	for i := 0; i < len(shas) && err == nil; i++ {
		if i >= len(known) || !known[i] {
			err = c.ScriptLoad(ctx, sources[i]).Err()
		}
	}
	// A Sentinel has no SCRIPT command, and an ACL of the server may forbid it.
	if redis.HasErrorPrefix(err, "unknown command") || redis.HasErrorPrefix(err, "NOPERM") {
		return nil
	}
	return err
}

func (s *Store) reach(ctx context.Context) error {
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	info, err := s.server.RDB.Info(bounded).Result()
	if err != nil {
		return fmt.Errorf("%w: check that Redis runs there, and that user and password are right", err)
	}
	facts := conn.ParseInfo(info)
	if conn.IsOlder(facts, 7, 0) {
		return fmt.Errorf("redis has version %s: use version 7.0 or newer", facts["redis_version"])
	}
	if s.server.Endpoint.Single != nil && facts["cluster_enabled"] == "1" {
		if s.server.Endpoint.Single.Network == "unix" {
			return fmt.Errorf("the server is part of a cluster: set the addresses of the cluster's nodes in --store, because a Unix socket reaches only one node")
		}
		if err := s.server.RDB.Close(); err != nil {
			return fmt.Errorf("cannot change to a cluster connection: %w", err)
		}
		s.server.Endpoint.AsCluster()
		s.connect()
	}
	for range server.FirstReadings {
		if err := s.server.ReadClock(bounded); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) begin(ctx context.Context) error {
	for _, check := range []func(context.Context) error{s.reach, s.server.CheckReplicas, s.server.CheckFormat} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	bounded, cancel := s.server.Bounded(ctx)
	defer cancel()
	err := s.server.ReadStamp(bounded)
	if err != nil {
		return err
	}
	if s.Catalogue, err = catalogue.Open(bounded, &s.server); err != nil {
		return err
	}
	s.doorbells.Init(&s.server)
	for _, run := range []func(context.Context){s.server.KeepPresent, s.doorbells.Run, func(ctx context.Context) { catalogue.Run(ctx, s.Catalogue) }} {
		s.server.Background.Go(func() { run(s.server.Running) })
	}
	return nil
}

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
