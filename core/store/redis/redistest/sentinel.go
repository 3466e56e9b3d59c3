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

// masterName is the sentinel's name for the master.
const masterName = "ctmaster"

// Sentinel is a master with replicas, and a sentinel that watches them.
type Sentinel struct {
	dir      string
	sentinel *node
	servers  []*node // a master and its replicas
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

// master returns the index in s.servers of the sentinel's master. ok is false if it is not there.
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
// replicas follow it, the sentinel continues to wait for it.
func (s *Sentinel) isCalm(ctx context.Context) bool {
	facts := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", masterName)
	_ = s.sentinel.client.Process(ctx, facts) // the command keeps its error
	return facts.Val()["flags"] == "master"
}

// LoseMaster ends the master and removes its disk, when the master has its replicas. The caller
// must call Repair.
func (s *Sentinel) LoseMaster(tb testing.TB) (lost int) {
	tb.Helper()
	return s.LoseMasterAfter(tb, nil)
}

// LoseMasterAfter is LoseMaster, but first disconnects the replicas and calls unreplicated, if it
// is not nil: what the master then stores is lost.
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

// Repair starts a lost master with an empty disk, as a replica of the new master, and waits until
// all replicas are up to date. Until then, the old master must not be promoted.
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
		err = s.await(ctx, func() bool { // a busy machine may cause another failover
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

// FailOver promotes the replica when it is up to date, and waits until it is the master.
// Replication is asynchronous: without the first wait, the last writes could be lost.
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

// Restart ends the first master, calls down, and starts the master again with its data.
func (s *Sentinel) Restart(tb testing.TB, down func()) {
	tb.Helper()
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

// URL returns the URL by which a store finds the master.
func (s *Sentinel) URL() string { return "redis+sentinel://" + s.sentinel.addr + "/" + masterName }

func (s *Sentinel) stop() {
	for _, n := range s.servers {
		n.stop()
	}
	if s.sentinel != nil {
		s.sentinel.stop()
	}
	_ = os.RemoveAll(s.dir) // a remaining temporary directory does no harm
}
