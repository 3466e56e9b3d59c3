package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/freeport"
	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

const masterName = "ctmaster"

type Sentinel struct {
	dir      string
	sentinel *node
	servers  []*node
}

func StartSentinel(tb testing.TB, replicas int) *Sentinel {
	tb.Helper()
	binary := program(tb)
	s := new(Sentinel)
	var err error
	if s.dir, err = os.MkdirTemp("", "ct-sentinel-"); err != nil {
		tb.Fatalf("make a directory for a sentinel: %v", err)
	}
	tb.Cleanup(s.stop)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.form(ctx, binary, replicas); err != nil {
		tb.Fatalf("form a sentinel set-up: %v", err)
	}
	return s
}

func (s *Sentinel) form(ctx context.Context, binary string, replicas int) error {
	var host, port string
	for i := range 1 + replicas {
		n, err := startNode(ctx, binary, filepath.Join(s.dir, strconv.Itoa(i)), "--repl-diskless-sync-delay", "0")
		if err != nil {
			return err
		}
		s.servers = append(s.servers, n)
		if i == 0 {
			host, port, err = net.SplitHostPort(n.addr)
		} else {
			err = n.client.ReplicaOf(ctx, host, port).Err()
		}
		if err != nil {
			return err
		}
	}
	config := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", masterName, host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	free, err := freeport.Take()
	if err != nil {
		return err
	}
	s.sentinel = &node{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(free))}
	s.sentinel.client = redisserver.Client("tcp", s.sentinel.addr)
	s.sentinel.process, err = redisserver.Start(binary, s.dir, config, "--sentinel", "--port", strconv.Itoa(free), "--bind", "127.0.0.1")
	if err != nil {
		return err
	}
	if err := s.sentinel.process.WaitReady(ctx, s.sentinel.client); err != nil {
		return err
	}
	return s.await(ctx, func() bool {
		known, err := s.sentinel.client.Do(ctx, "SENTINEL", "REPLICAS", masterName).Slice()
		return err == nil && len(known) == replicas && s.servers[0].awaitReplicas(ctx, replicas) == nil
	})
}

func (s *Sentinel) master(ctx context.Context) (int, bool) {
	named, err := s.sentinel.client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	if err != nil || len(named) != 2 {
		return 0, false
	}
	at := slices.IndexFunc(s.servers, func(n *node) bool { return n.addr == net.JoinHostPort(named[0], named[1]) })
	if at < 0 {
		return 0, false
	}
	facts, err := s.servers[at].replication(ctx)
	return at, err == nil && facts["role"] == "master"
}

// isCalm reports whether no failover is in progress. If a promoted replica fails before the other
// replicas follow it, the failover stays in progress.
func (s *Sentinel) isCalm(ctx context.Context) bool {
	facts := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", masterName)
	_ = s.sentinel.client.Process(ctx, facts) // the command keeps its error
	return facts.Val()["flags"] == "master"
}

// The caller must call Repair.
func (s *Sentinel) LoseMaster(tb testing.TB) (lost int) {
	tb.Helper()
	return s.LoseMasterAfter(tb, nil)
}

// LoseMasterAfter kills the master, and returns its index. If unreplicated is not nil, it first
// disconnects the replicas and calls unreplicated: what the master stores then is lost.
func (s *Sentinel) LoseMasterAfter(tb testing.TB, unreplicated func()) (lost int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := s.await(ctx, func() bool {
		var ok bool
		lost, ok = s.master(ctx)
		return ok && s.isCalm(ctx) && s.servers[lost].hasReplicas(ctx, len(s.servers)-1)
	})
	if err != nil {
		tb.Fatalf("find the master with its replicas: %v; %s", err, s.describe())
	}
	if unreplicated != nil {
		for _, c := range [][]any{{"ACL", "SETUSER", "default", "-psync", "-sync"}, {"CLIENT", "KILL", "TYPE", "replica"}} {
			if err := s.servers[lost].client.Do(ctx, c...).Err(); err != nil {
				tb.Fatalf("cut the replicas off: %v: %v", c, err)
			}
		}
		unreplicated()
	}
	s.servers[lost].process.Kill()
	return lost
}

func (s *Sentinel) describe() string {
	var all []string
	for _, n := range s.servers {
		facts, err := n.replication(context.Background())
		all = append(all, fmt.Sprint(n.addr, ": ", facts["role"], " of ", facts["master_port"], ", link ", facts["master_link_status"], ", replicas ", facts["connected_slaves"], ", ", err))
	}
	return strings.Join(all, "; ")
}

// Repair restarts the lost server, with an empty disk, as a replica. Its priority of 0 prevents its
// promotion before all replicas are up to date.
func (s *Sentinel) Repair(tb testing.TB, lost int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	master := lost
	err := s.await(ctx, func() bool {
		at, ok := s.master(ctx)
		master = at
		return ok && at != lost
	})
	if err == nil {
		host, port, _ := net.SplitHostPort(s.servers[master].addr)
		err = s.servers[lost].start(ctx, "--replicaof", host+" "+port, "--replica-priority", "0")
	}
	if err == nil {
		err = s.await(ctx, func() bool { // a busy machine may cause another failover, so ask for the master each time
			at, ok := s.master(ctx)
			return ok && s.servers[at].hasReplicas(ctx, len(s.servers)-1)
		})
	}
	if err == nil {
		err = s.servers[lost].client.ConfigSet(ctx, "replica-priority", "100").Err()
	}
	if err != nil {
		tb.Fatalf("repair %s: %v; %s", s.servers[lost].addr, err, s.describe())
	}
}

// FailOver first waits until the replica is up to date, because replication is asynchronous.
func (s *Sentinel) FailOver(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := s.await(ctx, func() bool {
		written := s.servers[0].client.InfoMap(ctx, "replication")
		held := s.servers[1].client.InfoMap(ctx, "replication")
		offset := written.Item("Replication", "master_repl_offset")
		return offset != "" && offset == held.Item("Replication", "slave_repl_offset")
	})
	if err == nil {
		err = s.await(ctx, func() bool { // the sentinel refuses until it has seen that the replica is healthy
			return s.sentinel.client.Do(ctx, "SENTINEL", "FAILOVER", masterName).Err() == nil
		})
	}
	if err == nil {
		err = s.await(ctx, func() bool {
			info, err := s.servers[0].client.Info(ctx, "replication").Result()
			return err == nil && strings.Contains(info, "role:slave")
		})
	}
	if err != nil {
		tb.Fatalf("fail over: %v", err)
	}
}

// Restart restarts the initial master with its data, and calls down while it is down. Sentinel does
// not fail over meanwhile, nor later, however long the restart takes.
func (s *Sentinel) Restart(tb testing.TB, down func()) {
	tb.Helper()
	if err := s.sentinel.client.Do(tb.Context(), "SENTINEL", "SET", masterName, "down-after-milliseconds", time.Hour.Milliseconds()).Err(); err != nil {
		tb.Fatalf("keep the sentinel from failing over: %v", err)
	}
	s.servers[0].restart(tb, down)
}

func (s *Sentinel) await(ctx context.Context, yes func() bool) error {
	for !yes() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (s *Sentinel) URL() string { return "redis+sentinel://" + s.sentinel.addr + "/" + masterName }

func (s *Sentinel) stop() {
	for _, n := range s.servers {
		n.stop()
	}
	if s.sentinel != nil {
		s.sentinel.stop()
	}
	_ = os.RemoveAll(s.dir)
}
