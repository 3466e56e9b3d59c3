package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicaTimeout is how long a call waits for replicas, and syncTimeout for their disks. A forwarder waits for 3 s.
const (
	replicaTimeout = time.Second
	syncTimeout    = 2 * time.Second
)

// waitCommand returns the command that waits for replicas.
func (t *endpoint) waitCommand() []any {
	if t.fsync {
		return []any{"WAITAOF", 1, t.replicas, syncTimeout.Milliseconds()}
	}
	return []any{"WAIT", t.replicas, replicaTimeout.Milliseconds()}
}

// markAndWait queues a write that marks the end of the connection's writes so far, then a wait
// until replicas have this mark. Without the mark, the command would wait for the connection's last
// write; since Redis 7.2 a script that finds everything already done writes nothing, so its answer
// would not wait.
func (t *endpoint) markAndWait(ctx context.Context, pipe redis.Pipeliner, marker string) (marked, waited *redis.Cmd) {
	return pipe.Do(ctx, "SET", marker, "", "EX", 60), pipe.Do(ctx, t.waitCommand()...)
}

// nameOf names a master.
func (t *endpoint) nameOf(node *redis.Client) string {
	if t.cluster != nil {
		return node.Options().Addr
	}
	return t.safe
}

// notReplicated is the error of a call to which too few replicas have answered. Unless it was
// refused before it was sent, it is unknown whether it took effect. It must then not be sent again,
// neither to another partition nor as another move.
type notReplicated struct {
	node      string
	want, got int
	reason    string // what the server answered, or which replicas lag
	refused   bool
}

func (e *notReplicated) Error() string {
	text := fmt.Sprintf("redis at %s: %d of the %d replicas have confirmed in time", e.node, e.got, e.want)
	if e.refused {
		text = fmt.Sprintf("redis at %s does not have the %d replicas that replicas=%d requires", e.node, e.want, e.want)
	}
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// replication records which masters have too few replicas.
type replication struct {
	mu      sync.Mutex
	lagging map[*redis.Client]*notReplicated // refusals
}

// refusal refuses, before sending, calls that wait for replicas while too few replicas answer.
func (r *replication) refusal(node *redis.Client) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if few := r.lagging[node]; few != nil {
		refusal := *few
		return &refusal
	}
	return nil
}

// probeInterval is how often a master with too few replicas is probed.
const probeInterval = 100 * time.Millisecond

// note makes calls to a master fail until it has its replicas again.
func (r *replication) note(s *Store, node *redis.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lagging[node] != nil || s.running.Err() != nil {
		return
	}
	if r.lagging == nil {
		r.lagging = make(map[*redis.Client]*notReplicated)
	}
	r.lagging[node] = &notReplicated{node: s.endpoint.nameOf(node), want: s.endpoint.replicas, refused: true}
	s.background.Go(func() { r.await(s, node) })
}

// await probes a master until it has its replicas, or is no longer a master.
func (r *replication) await(s *Store, node *redis.Client) {
	for first := true; ; first = false {
		ctx, cancel := s.bounded(s.running)
		lag, err := lagOf(ctx, node)
		if err == nil && lag != "" {
			r.mu.Lock()
			r.lagging[node].reason = lag
			r.mu.Unlock()
			if first {
				s.log.Warn("too few replicas of Redis answer: the gateway refuses writes until enough answer", "redis", s.endpoint.nameOf(node), "replicas", lag)
			}
		}
		ended := s.probeReplicas(ctx, node) == nil || !s.isMaster(ctx, node)
		cancel()
		if ended || !pause(s.running, probeInterval) {
			break
		}
	}
	r.mu.Lock()
	delete(r.lagging, node)
	r.mu.Unlock()
}

// probeReplicas returns nil if a master's replicas have everything that it has written so far.
func (s *Store) probeReplicas(ctx context.Context, node *redis.Client) error {
	marker, err := s.probeKey(ctx, node)
	if err != nil {
		return err
	}
	pipe := node.Pipeline()
	_, waited := s.endpoint.markAndWait(ctx, pipe, marker)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if got := confirmed(waited); got < s.endpoint.replicas {
		return &notReplicated{node: s.endpoint.nameOf(node), want: s.endpoint.replicas, got: got}
	}
	return nil
}

// isMaster reports whether a node of a cluster is still one of its masters; a single server always is.
func (s *Store) isMaster(ctx context.Context, node *redis.Client) bool {
	if s.cluster == nil {
		return true
	}
	masters, err := s.masters(ctx)
	return err != nil || slices.Contains(masters, node)
}

// lagOf describes the replicas of a master, and how far they are behind.
func lagOf(ctx context.Context, node *redis.Client) (string, error) {
	info, err := node.Info(ctx, "replication").Result()
	if err != nil {
		return "", err
	}
	facts := parseInfo(info)
	written := int64(atoi(facts["master_repl_offset"]))
	var told []string
	for i := range atoi(facts["connected_slaves"]) {
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

// checkReplicas refuses a store whose masters cannot give what the URL demands.
func (s *Store) checkReplicas(ctx context.Context) error {
	t := &s.endpoint
	if t.replicas == 0 {
		return nil
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	return s.eachMaster(bounded, func(ctx context.Context, node *redis.Client) error {
		name := t.nameOf(node)
		info, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		facts := parseInfo(info)
		if t.fsync {
			if err := s.checkSync(ctx, node, name, facts); err != nil {
				return err
			}
		}
		if n := atoi(facts["connected_slaves"]); n < t.replicas {
			return &notReplicated{node: name, want: t.replicas, refused: true, reason: fmt.Sprintf("%d connected: connect more replicas, or set a smaller number", n)}
		}
		err = s.probeReplicas(ctx, node)
		if redis.HasErrorPrefix(err, "NOPERM") {
			return fmt.Errorf("replicas=%d requires a Redis user that may use WAIT: grant +wait and +waitaof with ACL SETUSER: %w", t.replicas, err)
		}
		return err
	})
}

// warnings returns warnings about a master whose replicas confirm writes, but might not keep them.
func (s *Store) warnings(ctx context.Context, node *redis.Client, facts map[string]string) (all []string) {
	t := &s.endpoint
	if t.replicas == 0 {
		return nil
	}
	name := t.nameOf(node)
	if n := atoi(facts["connected_slaves"]); n > t.replicas {
		all = append(all, fmt.Sprintf("Redis at %s has %d replicas, but the gateway waits for only %d. A failover may promote a replica that lacks the last messages: set replicas=%d.", name, n, t.replicas, n))
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

// priorities returns the replicas' priorities, as a Sentinel reports them.
func (t *endpoint) priorities(ctx context.Context) map[string]string {
	if t.sentinel == nil {
		return nil
	}
	o := t.sentinel
	for _, addr := range o.SentinelAddrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig, MaxRetries: -1, DialTimeout: dialTimeout, Protocol: protocol})
		replicas, err := c.Replicas(ctx, o.MasterName).Result()
		_ = c.Close() // it was only used to ask
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

// checkSync refuses fsync=1 where WAITAOF is missing, or would wait for the next second's sync.
func (s *Store) checkSync(ctx context.Context, node *redis.Client, name string, facts map[string]string) error {
	if isOlder(facts, 7, 2) {
		return fmt.Errorf("redis at %s has version %s: fsync=1 requires version 7.2 or newer: leave out fsync, or update Redis", name, facts["redis_version"])
	}
	policy, err := node.ConfigGet(ctx, "appendfsync").Result()
	if err != nil {
		return fmt.Errorf("redis at %s does not report its appendfsync, which must be always for fsync=1: %w", name, err)
	}
	if facts["aof_enabled"] != "1" || policy["appendfsync"] != "always" {
		return fmt.Errorf("redis at %s has appendonly %s and appendfsync %s: fsync=1 requires appendonly yes and appendfsync always, on the replicas too",
			name, map[bool]string{true: "yes", false: "no"}[facts["aof_enabled"] == "1"], policy["appendfsync"])
	}
	return nil
}
