package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/internal/freeport"
	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

// masterName is what the sentinel calls its master.
const masterName = "ctmaster"

// Sentinel is a master with a replica, and a sentinel that watches them.
type Sentinel struct {
	dir      string
	sentinel *node
	servers  []*node // one is the master, the other its replica
}

// StartSentinel runs one until the test ends.
func StartSentinel(tb testing.TB) *Sentinel {
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
	if err := s.form(ctx, binary); err != nil {
		tb.Fatalf("form a sentinel set-up: %v", err)
	}
	return s
}

func (s *Sentinel) form(ctx context.Context, binary string) error {
	for i := range 2 {
		n, err := startNode(ctx, binary, filepath.Join(s.dir, strconv.Itoa(i)), "--repl-diskless-sync-delay", "0")
		if err != nil {
			return err
		}
		s.servers = append(s.servers, n)
	}
	host, port, err := net.SplitHostPort(s.servers[0].addr)
	if err != nil {
		return err
	}
	if err := s.servers[1].client.ReplicaOf(ctx, host, port).Err(); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 1000\n", masterName, host, port, masterName)
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
		replicas, err := s.sentinel.client.Do(ctx, "SENTINEL", "REPLICAS", masterName).Slice()
		info, infoErr := s.servers[1].client.Info(ctx, "replication").Result()
		return err == nil && len(replicas) == 1 && infoErr == nil && strings.Contains(info, "master_link_status:up")
	})
}

// FailOver makes the replica the master when it has what the master has, and
// returns when it is. Replication is asynchronous: without the wait, what was
// written last would be lost with the master.
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
		err = s.await(ctx, func() bool { // the sentinel refuses until it knows the replica well
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

// await asks again and again until the answer is yes.
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

// URL is where the store finds the master.
func (s *Sentinel) URL() string { return "redis+sentinel://" + s.sentinel.addr + "/" + masterName }

func (s *Sentinel) stop() {
	for _, n := range s.servers {
		n.stop()
	}
	if s.sentinel != nil {
		s.sentinel.stop()
	}
	_ = os.RemoveAll(s.dir) // a directory left in the temporary one does no harm
}
