package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func (c *Cluster) replicate(ctx context.Context) error {
	for i, n := range c.nodes[masters:] {
		id, err := c.nodes[i%masters].client.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		if err := n.client.ClusterReplicate(ctx, id).Err(); err != nil {
			return err
		}
	}
	for i := range c.nodes[masters:] {
		if err := c.waitReplicated(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) waitReplicated(ctx context.Context, replica int) error {
	return eventually(ctx, func() bool {
		m, err := c.nodes[replica%masters].replication(ctx)
		if err != nil {
			return false
		}
		r, err := c.nodes[masters+replica].replication(ctx)
		return err == nil && r["master_link_status"] == "up" && r["slave_repl_offset"] == m["master_repl_offset"]
	})
}

func (n *node) replication(ctx context.Context) (map[string]string, error) {
	text, err := n.client.Info(ctx, "replication").Result()
	facts := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[key] = value
		}
	}
	return facts, err
}

func eventually(ctx context.Context, yes func() bool) error {
	for !yes() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Owner returns the index of the master that owned a key's slot before any failover.
func (c *Cluster) Owner(tb testing.TB, key string) int {
	tb.Helper()
	return (c.slot(tb, key)*masters + masters - 1) / slots
}

func (c *Cluster) slot(tb testing.TB, key string) int {
	tb.Helper()
	slot, err := c.nodes[0].client.ClusterKeySlot(tb.Context(), key).Result()
	if err != nil {
		tb.Fatalf("slot of %s: %v", key, err)
	}
	return int(slot)
}

// KillMaster kills a master when its replica has all acknowledged writes. The caller must not write
// meanwhile. The replica is not promoted before AwaitPromotion.
func (c *Cluster) KillMaster(tb testing.TB, master int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	if err := c.waitReplicated(ctx, master); err != nil {
		tb.Fatalf("replica of master %d: %v", master, err)
	}
	c.holdReplica(ctx, tb, master, "yes")
	c.nodes[master].process.Kill()
}

func (c *Cluster) AwaitPromotion(tb testing.TB, master int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	c.holdReplica(ctx, tb, master, "no")
	for i, n := range c.nodes {
		if i == master {
			continue
		}
		err := eventually(ctx, func() bool { return n.knows(ctx, c.nodes[masters+master]) })
		if err != nil {
			tb.Fatalf("promotion of the replica of master %d: %v", master, err)
		}
	}
}

// holdReplica prevents the promotion of a master's replica if hold is "yes"; "no" allows it.
func (c *Cluster) holdReplica(ctx context.Context, tb testing.TB, master int, hold string) {
	tb.Helper()
	if err := c.nodes[masters+master].client.ConfigSet(ctx, "cluster-replica-no-failover", hold).Err(); err != nil {
		tb.Fatalf("replica of master %d: %v", master, err)
	}
}

func (n *node) knows(ctx context.Context, master *node) bool {
	text, err := n.client.ClusterNodes(ctx).Result()
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 8 && strings.HasPrefix(fields[1], master.addr+"@") && strings.Contains(fields[2], "master") {
			return true
		}
	}
	return false
}

type Move struct {
	cluster  *Cluster
	slot     int
	from, to *node
}

// BeginMove begins to move the slot of a key to the master after its owner.
func (c *Cluster) BeginMove(tb testing.TB, key string) *Move {
	tb.Helper()
	owner := c.Owner(tb, key)
	m := &Move{cluster: c, slot: c.slot(tb, key), from: c.nodes[owner], to: c.nodes[(owner+1)%masters]}
	c.settle(tb)
	m.set(tb, m.to, "IMPORTING", m.from)
	m.set(tb, m.from, "MIGRATING", m.to)
	return m
}

func (m *Move) BeginReturn(tb testing.TB) *Move {
	tb.Helper()
	back := &Move{cluster: m.cluster, slot: m.slot, from: m.to, to: m.from}
	back.set(tb, back.to, "IMPORTING", back.from)
	back.set(tb, back.from, "MIGRATING", back.to)
	return back
}

func (m *Move) MoveAll(tb testing.TB) {
	tb.Helper()
	from, _ := m.Keys(tb)
	for _, key := range from {
		m.MoveKey(tb, key)
	}
	m.Finish(tb)
}

// set sends CLUSTER SETSLOT to n: the slot gets the state what with respect to the node other.
func (m *Move) set(tb testing.TB, n *node, what string, other *node) {
	tb.Helper()
	id, err := other.client.ClusterMyID(tb.Context()).Result()
	if err == nil {
		err = n.client.Do(tb.Context(), "CLUSTER", "SETSLOT", m.slot, what, id).Err()
	}
	if err != nil {
		tb.Fatalf("slot %d %s at %s: %v", m.slot, what, n.addr, err)
	}
}

func (m *Move) Keys(tb testing.TB) (from, to []string) {
	tb.Helper()
	from, err := m.from.client.ClusterGetKeysInSlot(tb.Context(), m.slot, 1000).Result()
	if err == nil {
		to, err = m.to.client.ClusterGetKeysInSlot(tb.Context(), m.slot, 1000).Result()
	}
	if err != nil {
		tb.Fatalf("keys of slot %d: %v", m.slot, err)
	}
	return from, to
}

func (m *Move) MoveKey(tb testing.TB, key string) {
	tb.Helper()
	host, port, _ := strings.Cut(m.to.addr, ":")
	if err := m.from.client.Migrate(tb.Context(), host, port, key, 0, startTimeout).Err(); err != nil {
		tb.Fatalf("migrate %s: %v", key, err)
	}
}

// Finish makes the new node the slot's owner. No key may be left on the old node.
func (m *Move) Finish(tb testing.TB) {
	tb.Helper()
	if left, _ := m.Keys(tb); len(left) > 0 {
		tb.Fatalf("keys left behind: %v", left)
	}
	m.set(tb, m.to, "NODE", m.to)
	m.set(tb, m.from, "NODE", m.to)
	for _, n := range m.cluster.nodes[:masters] {
		if n != m.to && n != m.from {
			m.set(tb, n, "NODE", m.to)
		}
	}
	m.cluster.settle(tb)
}

// settle waits until all masters know each other's configuration epochs. A node that takes a slot
// sets its epoch to the highest that it knows. If another node's epoch is higher, an earlier
// message of the slot's old owner takes the slot back, and then no node has it.
func (c *Cluster) settle(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	err := eventually(ctx, func() bool {
		var known [masters]map[string]string
		for i, n := range c.nodes[:masters] {
			text, err := n.client.ClusterNodes(ctx).Result()
			if err != nil {
				return false
			}
			known[i] = epochs(text)
		}
		return maps.Equal(known[0], known[1]) && maps.Equal(known[1], known[2])
	})
	if err != nil {
		tb.Fatalf("the masters do not agree on their epochs: %v", err)
	}
}

// epochs returns the epoch of each master. If two masters have the same epoch, it adds a random
// entry, so that the map equals no other.
func epochs(nodes string) map[string]string {
	of, by := make(map[string]string), make(map[string]string)
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 8 && strings.Contains(fields[2], "master") {
			of[fields[0]], by[fields[6]] = fields[6], fields[0]
		}
	}
	if len(by) < len(of) {
		of[""] = rand.Text()
	}
	return of
}

// At runs a command on the slot's new node, bypassing the store.
func (m *Move) At(tb testing.TB, args ...any) string {
	tb.Helper()
	answer, err := m.to.client.Do(tb.Context(), args...).Result()
	if err != nil {
		tb.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(answer)
}

// LoseMaster kills a master when its replicas have all writes. Then Repair must restart it empty.
func (c *Cluster) LoseMaster(tb testing.TB, pick int) *Loss {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	l := &Loss{cluster: c}
	err := eventually(ctx, func() bool {
		following := make(map[string][]*node) // by the master's port
		var all []*node
		for _, n := range c.nodes {
			facts, err := n.replication(ctx)
			switch {
			case err != nil:
				return false
			case facts["role"] == "master":
				all = append(all, n)
			default:
				following[facts["master_port"]] = append(following[facts["master_port"]], n)
			}
		}
		if len(all) != masters || len(following) != masters {
			return false
		}
		l.lost = all[pick%masters]
		_, port, _ := net.SplitHostPort(l.lost.addr)
		l.heirs = following[port]
		return len(l.heirs) > 0
	})
	if err == nil {
		err = l.lost.awaitReplicas(ctx, len(l.heirs))
	}
	if err == nil {
		l.id, err = l.lost.client.ClusterMyID(ctx).Result()
	}
	if err != nil {
		tb.Fatalf("find a master with its replica: %v", err)
	}
	l.lost.process.Kill()
	return l
}

type Loss struct {
	cluster *Cluster
	lost    *node
	heirs   []*node
	id      string
}

// Repair starts the lost master with an empty disk, as a replica of its successor. It waits until
// the successor has as many replicas as the lost master had.
func (l *Loss) Repair(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var others []*node
	var heir *node
	for _, n := range l.cluster.nodes {
		if n != l.lost {
			others = append(others, n)
		}
	}
	steps := []func() error{
		func() error {
			return eventually(ctx, func() bool {
				for _, heir = range l.heirs {
					if !slices.ContainsFunc(others, func(n *node) bool { return !n.knows(ctx, heir) }) {
						return true
					}
				}
				return false
			})
		},
		func() error { return l.lost.start(ctx) },
		func() error { return l.forget(ctx, others) },
		func() error {
			host, port, _ := net.SplitHostPort(l.lost.addr)
			return eventually(ctx, func() bool { // on a busy machine, the first try may fail
				bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				return heir.client.ClusterMeet(bounded, host, port).Err() == nil && l.lost.waitFormed(bounded, len(l.cluster.nodes)) == nil
			})
		},
		func() error {
			id, err := heir.client.ClusterMyID(ctx).Result()
			if err == nil {
				err = eventually(ctx, func() bool { return l.lost.client.ClusterReplicate(ctx, id).Err() == nil })
			}
			return err
		},
		func() error { return heir.awaitReplicas(ctx, len(l.heirs)) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			text, _ := heir.client.ClusterNodes(ctx).Result()
			tb.Fatalf("repair %s, step %d: %v\n%s", l.lost.addr, i, err, text)
		}
	}
}

func (l *Loss) forget(ctx context.Context, others []*node) error {
	for _, n := range others {
		if err := n.client.ClusterForget(ctx, l.id).Err(); err != nil && !strings.Contains(err.Error(), "Unknown node") {
			return err
		}
	}
	return nil
}
