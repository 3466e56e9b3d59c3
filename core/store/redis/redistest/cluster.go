package redistest

import (
	"context"
	"errors"
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

const (
	masters = 3
	slots   = 16384
)

type Cluster struct {
	dir   string
	nodes []*node // masters, then a replica of each in the same order, then another replica of each
}

type node struct {
	program, dir string
	args         []string
	addr         string
	client       *redis.Client
	process      *redisserver.Process
}

// SharedCluster runs a cluster without replicas for all tests of a package. TestMain must stop it.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	return launchCluster(tb, 0)
}

// StartCluster runs a cluster until the test ends. If a master fails, only its slots fail.
func StartCluster(tb testing.TB, replicas int) *Cluster {
	tb.Helper()
	c := launchCluster(tb, replicas)
	tb.Cleanup(c.Stop)
	return c
}

func launchCluster(tb testing.TB, replicas int) *Cluster {
	tb.Helper()
	binary := program(tb)
	c := new(Cluster)
	var err error
	if c.dir, err = os.MkdirTemp("", "ct-cluster-"); err != nil {
		tb.Fatalf("make a directory for a cluster: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.form(ctx, binary, replicas); err != nil {
		c.Stop()
		tb.Fatalf("form a cluster: %v", err)
	}
	return c
}

func (c *Cluster) form(ctx context.Context, binary string, replicas int) error {
	for i := range masters * (1 + replicas) {
		n, err := startNode(ctx, binary, filepath.Join(c.dir, strconv.Itoa(i)),
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	for i, n := range c.nodes[:masters] {
		first, last := i*slots/masters, (i+1)*slots/masters-1
		if err := n.client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return err
		}
		if err := n.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		host, port, err := net.SplitHostPort(n.addr)
		if err != nil {
			return err
		}
		for _, other := range c.nodes[:i] { // introduce all nodes to each other, because gossip is slow
			if err := other.client.ClusterMeet(ctx, host, port).Err(); err != nil {
				return err
			}
		}
	}
	for _, n := range c.nodes {
		if err := n.waitFormed(ctx, len(c.nodes)); err != nil {
			return err
		}
	}
	return c.replicate(ctx)
}

func startNode(ctx context.Context, binary, dir string, args ...string) (*node, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	n := &node{program: binary, dir: dir, args: args, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	n.client = redisserver.Client("tcp", n.addr)
	if err := n.start(ctx); err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// more are arguments for this run only.
func (n *node) start(ctx context.Context, more ...string) error {
	if err := errors.Join(os.RemoveAll(n.dir), os.Mkdir(n.dir, 0o700)); err != nil {
		return err
	}
	return n.run(ctx, more...)
}

func (n *node) restart(tb testing.TB, down func()) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	_ = n.client.ShutdownSave(ctx).Err() // the server ends instead of answering
	n.process.Kill()
	down()
	if err := n.run(ctx); err != nil {
		tb.Fatalf("restart %s: %v", n.addr, err)
	}
}

func (n *node) run(ctx context.Context, more ...string) error {
	_, port, err := net.SplitHostPort(n.addr)
	if err != nil {
		return err
	}
	all := slices.Concat([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", n.dir}, n.args, more)
	if n.process, err = redisserver.Start(n.program, n.dir, all...); err != nil {
		return err
	}
	return n.process.WaitReady(ctx, n.client)
}

func (n *node) awaitReplicas(ctx context.Context, replicas int) error {
	return eventually(ctx, func() bool { return n.hasReplicas(ctx, replicas) })
}

// hasReplicas reports whether that many replicas have the node's writes. They may need two seconds.
func (n *node) hasReplicas(ctx context.Context, replicas int) bool {
	pipe := n.client.Pipeline()
	pipe.Publish(ctx, "written", "") // makes WAIT wait for earlier writes of all connections
	waited := pipe.Do(ctx, "WAIT", replicas, 2000)
	_, _ = pipe.Exec(ctx) // the command keeps its error
	got, err := waited.Int()
	return err == nil && got >= replicas
}

func (n *node) waitFormed(ctx context.Context, known int) error {
	for {
		info, err := n.client.ClusterInfo(ctx).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", known)) &&
			strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s does not see the whole cluster: %w", n.addr, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *node) stop() {
	if n.process != nil {
		n.process.Kill()
	}
	_ = n.client.Close()
}

func (c *Cluster) URL() string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.addr
	}
	return "redis://" + strings.Join(addrs, ",") + "/?cluster=true"
}

func (c *Cluster) NodeURL(i int) string { return "redis://" + c.nodes[i].addr }

func (c *Cluster) Stop() {
	for _, n := range c.nodes {
		n.stop()
	}
	_ = os.RemoveAll(c.dir)
}
