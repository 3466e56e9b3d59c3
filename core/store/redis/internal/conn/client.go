// Package conn exchanges commands with Redis. It handles URLs, connections, short outages of the
// server, the wait for replicas, and the meaning of errors.
package conn

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

type Client struct {
	Endpoint    endpoint
	RDB         redis.UniversalClient
	Cluster     *redis.ClusterClient // nil without a cluster, otherwise RDB
	Log         *slog.Logger
	Probe       func(n int) string // names a key for test writes; different n reach different slots of a cluster
	Look        func() error       // fails if the server may now hold another store, or no store: then no call is sent
	Replication replication
	Background  sync.WaitGroup // probes of replicas, and tasks of the store
	Running     context.Context
	Stop        context.CancelFunc
}

// noLog discards the failures that go-redis would print to standard error: calls also return them.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(noLog{}) }

const CallTimeout = 10 * time.Second // limit of one exchange with Redis, even if its caller waits longer

func (s *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, CallTimeout)
}

func (s *Client) ProbeKey(ctx context.Context, node *redis.Client) (string, error) {
	if s.Cluster == nil {
		return s.Probe(0), nil
	}
	for i := range 10_000 {
		key := s.Probe(i)
		owner, err := s.Cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", err
		}
		if owner == node {
			return key, nil
		}
	}
	return "", core.Refuse(core.Busy, "The gateway found no key for a test write to the Redis master %s: give the master hash slots, or remove it from the cluster.", node.Options().Addr)
}

// EachMaster does not call f for masters without slots.
func (s *Client) EachMaster(ctx context.Context, f func(ctx context.Context, node *redis.Client) error) error {
	if s.Cluster != nil {
		return s.Cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			slots, err := ownsSlots(ctx, node)
			if err != nil || !slots {
				return err
			}
			return f(ctx, node)
		})
	}
	node, err := s.NodeOf(ctx, "") // a single server owns every key
	if err != nil {
		return err
	}
	return f(ctx, node)
}

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

func (s *Client) NodeOf(ctx context.Context, channel string) (*redis.Client, error) {
	if s.Cluster != nil {
		return s.Cluster.MasterForKey(ctx, channel)
	}
	node, ok := s.RDB.(*redis.Client)
	if !ok {
		return nil, core.Internal
	}
	return node, nil
}

// Do sends one command. If the answer is lost, the command may have run.
func (s *Client) Do(ctx context.Context, args ...any) (any, error) {
	return s.Ask(ctx, 0, args...)
}

func (s *Client) Ask(ctx context.Context, how ExchangeMode, args ...any) (any, error) {
	c := redis.NewCmd(ctx, args...)
	err := s.Exchange(ctx, how, c)
	return c.Val(), err
}

func ParseInfo(info string) map[string]string {
	facts := make(map[string]string)
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[key] = value
		}
	}
	return facts
}

func IsOlder(facts map[string]string, major, minor int) bool {
	parts := strings.Split(facts["redis_version"]+".0", ".")
	return Atoi(parts[0]) < major || Atoi(parts[0]) == major && Atoi(parts[1]) < minor
}

func Atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
