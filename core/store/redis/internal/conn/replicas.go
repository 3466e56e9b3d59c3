package conn

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/wake"
)

// A call waits replicaTimeout for replicas, and again for their disks. This must be well below the
// 3 s that a forwarder waits.
const replicaTimeout = time.Second

// markAndWait queues the write of marker, then a wait until replicas have it, and so everything
// that the master wrote before. WAIT without this write would wait for the connection's own last
// write. Since Redis 7.2, a script that finds everything already done writes nothing, so its answer
// would not wait for the replicas.
// With fsync, a wait for the disks follows. WAITAOF alone is not enough: a replica that gets the
// writes together with the request for its position answers before it syncs them, and again only a
// second later.
func (t *endpoint) markAndWait(ctx context.Context, pipe redis.Pipeliner, marker string) (marked, waited *redis.Cmd) {
	marked = pipe.Do(ctx, "SET", marker, "", "EX", 60)
	waited = pipe.Do(ctx, "WAIT", t.Replicas, replicaTimeout.Milliseconds())
	if t.fsync {
		waited = pipe.Do(ctx, "WAITAOF", 1, t.Replicas, replicaTimeout.Milliseconds())
	}
	return marked, waited
}

func (t *endpoint) nameOf(node *redis.Client) string {
	if t.cluster != nil {
		return node.Options().Addr
	}
	return t.Safe
}

type replication struct {
	mu      sync.Mutex
	lagging map[*redis.Client]*lag
}

type lag struct {
	since   time.Time
	ended   chan struct{}
	refusal NotReplicated
}

func (r *replication) Refusal(node *redis.Client) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lag := r.lagging[node]; lag != nil {
		refusal := lag.refusal
		return &refusal
	}
	return nil
}

// admit returns an error if replicas of node are missing. If they have been missing for less than
// patience, it first waits for them.
func (r *replication) admit(ctx context.Context, node *redis.Client, patience time.Duration) error {
	r.mu.Lock()
	lag := r.lagging[node]
	r.mu.Unlock()
	if lag == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, lag.since.Add(patience))
	defer cancel()
	select {
	case <-lag.ended:
		return nil
	case <-ctx.Done():
		return r.Refusal(node)
	}
}

const probeInterval = 100 * time.Millisecond

// note records that node lacks replicas, and probes it in the background until it has enough.
func (r *replication) note(s *Client, node *redis.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lagging[node] != nil || s.Running.Err() != nil {
		return
	}
	if r.lagging == nil {
		r.lagging = make(map[*redis.Client]*lag)
	}
	r.lagging[node] = &lag{time.Now(), make(chan struct{}), NotReplicated{node: s.Endpoint.nameOf(node), want: s.Endpoint.Replicas, refused: true}}
	s.Background.Go(func() { r.await(s, node) })
}

func (r *replication) await(s *Client, node *redis.Client) {
	for first := true; ; first = false {
		ctx, cancel := s.Bounded(s.Running)
		told, err := lagOf(ctx, node)
		if err == nil {
			r.mu.Lock()
			r.lagging[node].refusal.reason = told
			r.mu.Unlock()
			if first {
				s.Log.Warn("too few Redis replicas answer: the gateway refuses writes until enough replicas answer", "redis", s.Endpoint.nameOf(node), "replicas", told)
			}
		}
		ended := s.ProbeReplicas(ctx, node) == nil || !s.isMaster(ctx, node)
		cancel()
		if ended || !wake.After(s.Running, probeInterval) {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.lagging[node].ended)
	delete(r.lagging, node)
}

// ProbeReplicas returns nil if enough replicas have everything that the master has written so far.
func (s *Client) ProbeReplicas(ctx context.Context, node *redis.Client) error {
	marker, err := s.ProbeKey(ctx, node)
	if err != nil {
		return err
	}
	pipe := node.Pipeline()
	_, waited := s.Endpoint.markAndWait(ctx, pipe, marker)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if got := confirmed(waited); got < s.Endpoint.Replicas {
		return &NotReplicated{node: s.Endpoint.nameOf(node), want: s.Endpoint.Replicas, got: got}
	}
	return nil
}

// A single server always is a master.
func (s *Client) isMaster(ctx context.Context, node *redis.Client) bool {
	if s.Cluster == nil {
		return true
	}
	masters, err := s.Masters(ctx)
	return err != nil || slices.Contains(masters, node)
}

func lagOf(ctx context.Context, node *redis.Client) (string, error) {
	info, err := node.Info(ctx, "replication").Result()
	if err != nil {
		return "", err
	}
	facts := ParseInfo(info)
	written := int64(Atoi(facts["master_repl_offset"]))
	var told []string
	for i := range Atoi(facts["connected_slaves"]) {
		var addr, state, lag string
		var offset int64
		for part := range strings.SplitSeq(facts["slave"+strconv.Itoa(i)], ",") {
			switch key, value, _ := strings.Cut(part, "="); key {
			case "ip":
				addr = value
			case "port":
				addr += ":" + value
			case "state":
				state = value
			case "lag":
				lag = value
			case "offset":
				offset, _ = strconv.ParseInt(value, 10, 64)
			}
		}
		told = append(told, fmt.Sprintf("%s (%s, %s s and %d bytes behind)", addr, state, lag, max(0, written-offset)))
	}
	if told == nil {
		return "no replica is connected", nil
	}
	return "its replicas are " + strings.Join(told, ", "), nil
}

func (s *Client) CheckReplicas(ctx context.Context) error {
	t := &s.Endpoint
	if t.Replicas == 0 {
		return nil
	}
	bounded, cancel := s.Bounded(ctx)
	defer cancel()
	return s.EachMaster(bounded, func(ctx context.Context, node *redis.Client) error {
		name := t.nameOf(node)
		info, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		facts := ParseInfo(info)
		if t.fsync {
			if err := s.checkSync(ctx, node, name, facts); err != nil {
				return err
			}
		}
		if n := Atoi(facts["connected_slaves"]); n < t.Replicas {
			return &NotReplicated{node: name, want: t.Replicas, refused: true, reason: fmt.Sprintf("%d connected: connect more replicas, or set replicas in the URL to a smaller number", n)}
		}
		err = s.ProbeReplicas(ctx, node)
		if redis.HasErrorPrefix(err, "NOPERM") {
			return fmt.Errorf("replicas=%d requires a Redis user that may use WAIT: grant +wait and +waitaof with ACL SETUSER: %w", t.Replicas, err)
		}
		return err
	})
}

func (s *Client) Warnings(ctx context.Context, node *redis.Client, facts map[string]string) (all []string) {
	t := &s.Endpoint
	if t.Replicas == 0 {
		return nil
	}
	name := t.nameOf(node)
	if n := Atoi(facts["connected_slaves"]); n > t.Replicas {
		all = append(all, fmt.Sprintf("Redis at %s has %d replicas, but the gateway waits for only %d. A failover may promote a replica that lacks the last messages: set replicas=%d.", name, n, t.Replicas, n))
	}
	if least, err := node.ConfigGet(ctx, "min-replicas-to-write").Result(); err == nil && least["min-replicas-to-write"] == "0" {
		all = append(all, fmt.Sprintf("Redis at %s accepts writes even if no replica is connected: set min-replicas-to-write 1.", name))
	}
	for addr, priority := range t.priorities(ctx) {
		if priority == "0" {
			all = append(all, fmt.Sprintf("The replica %s confirms messages but is never promoted, because its replica-priority is 0: set another priority, or do not count it in replicas.", addr))
		}
	}
	return all
}

func (t *endpoint) priorities(ctx context.Context) map[string]string {
	if t.Sentinel == nil {
		return nil
	}
	o := t.Sentinel
	for _, addr := range o.SentinelAddrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig, MaxRetries: -1, DialTimeout: dialTimeout, Protocol: protocol})
		replicas, err := c.Replicas(ctx, o.MasterName).Result()
		_ = c.Close()
		if err != nil {
			continue
		}
		found := make(map[string]string)
		for _, r := range replicas {
			found[r["ip"]+":"+r["port"]] = r["slave-priority"]
		}
		return found
	}
	return nil
}

func (s *Client) checkSync(ctx context.Context, node *redis.Client, name string, facts map[string]string) error {
	if IsOlder(facts, 7, 2) {
		return fmt.Errorf("redis at %s has version %s, but fsync=1 requires version 7.2 or newer: leave out fsync, or update Redis", name, facts["redis_version"])
	}
	policy, err := node.ConfigGet(ctx, "appendfsync").Result()
	if err != nil {
		return fmt.Errorf("redis at %s does not report its setting appendfsync, which must have the value always for fsync=1: %w", name, err)
	}
	if facts["aof_enabled"] != "1" || policy["appendfsync"] != "always" {
		return fmt.Errorf("redis at %s has appendonly %s and appendfsync %s: fsync=1 requires appendonly yes and appendfsync always, on the replicas too",
			name, map[bool]string{true: "yes", false: "no"}[facts["aof_enabled"] == "1"], policy["appendfsync"])
	}
	return nil
}
