package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/batching"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/catalogue"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
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
		least:  cmp.Or(o.leastBlock, leastBlock), lingers: cmp.Or(o.lingers, keyLingers), shards: shards{all: make(map[place]*shard)}, lostLocks: lostLocks{leases: make(map[place][]lease)}, start: startBatchers,
		recents: recents{limit: int(min(cmp.Or(o.Memory, mostRecent), mostRecent))},
	}}
	s.server.EndLocks = func(ctx context.Context) error { return cmp.Or(s.doorbells.EndLocks(ctx), s.endLostLocks(ctx)) }
	s.server.Left = func() {
		s.MayHaveMissed()
		s.doorbells.PollAll()
	}
	s.server.Look = s.server.IsKnown
	s.connect()
	s.server.Running, s.server.Stop = context.WithCancel(context.Background())
	return s, nil
}

func startBatchers(s *Store, sh *shard) {
	sh.appends.Start(&s.server, &s.flushed.appends, func(ts []*batching.Call[*outgoing[stored]]) { s.flushAppends(sh, ts) })
	sh.publishes.Start(&s.server, &s.flushed.publishes, func(ts []*batching.Call[*outgoing[publication]]) { s.flushPublishes(sh, ts) })
	sh.settles.Start(&s.server, &s.flushed.settles, func(ts []*batching.Call[*settling]) { s.flushSettles(sh, ts) })
	sh.renews.Start(&s.server, &s.flushed.renews, func(ts []*batching.Call[*renewing]) { s.flushRenews(sh, ts) })
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

// keyLingers is how long a partition still knows the key of a move after Forget: another gateway may
// repeat the move meanwhile, because it is late, or because its locks were ended although it lives.
const keyLingers = time.Minute
