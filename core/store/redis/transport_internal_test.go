package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// The map of a cluster changes while transactions are sent. Each runs whole or not at all, at one node, once.
func TestATransactionIsNotSplitWhenTheMapChanges(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	s, err := connect(cluster.URL()+"&replicas=1", Options{Prefix: "split:"})
	if err != nil {
		t.Fatal(err)
	}
	node := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(cluster.NodeURL(0), "redis://")})
	defer func() { _ = node.Close() }()
	var wrong atomic.Bool // every slot has the master of another one
	s.server.Cluster.Options().ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) {
		//lint:ignore SA1019 the option takes what CLUSTER SLOTS answers
		slots, err := node.ClusterSlots(ctx).Result()
		if wrong.Load() && err == nil {
			first := slots[0].Nodes
			for i := range slots[1:] {
				slots[i].Nodes = slots[i+1].Nodes
			}
			slots[len(slots)-1].Nodes = first
		}
		return slots, err
	}
	eventually.True(t, "the replicas confirm", func() bool {
		err := s.begin(t.Context())
		if _, few := errors.AsType[*conn.NotReplicated](err); err != nil && !few {
			t.Fatal(err)
		}
		return err == nil
	})
	defer func() { _ = s.Close() }() // the test is over
	e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if e, err = s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	p := e.Partition(0, core.Main)
	changing, stop := context.WithCancel(t.Context())
	var changes sync.WaitGroup
	changes.Go(func() {
		for changing.Err() == nil {
			wrong.Store(!wrong.Load())
			_, _ = s.server.Masters(changing) // reads the map
		}
	})
	group := make([]*core.Message, 10)
	for i := range group {
		group[i] = &core.Message{Body: core.Body{Bytes: []byte("m")}}
	}
	stored, unsure := 0, 0
	for range 300 {
		switch err := p.In(s).Append(t.Context(), [][]*core.Message{group})[0].Err; {
		case err == nil:
			stored += len(group)
		case !core.IsNotDone(err): // the mark of its end went to another master
			unsure += len(group)
		}
	}
	stop()
	changes.Wait()
	wrong.Store(false)
	if _, err := s.server.Masters(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := s.server.Names.Keys(p.Ref)
	given, err := s.server.RDB.HGet(t.Context(), k.Head, "s").Int()
	length := int(s.server.RDB.XLen(t.Context(), k.Stream).Val())
	if err != nil || given != length || length%len(group) != 0 || length < stored || length > stored+unsure {
		t.Errorf("got %d messages and %d numbers, want as many of both, %d and up to %d more: %v", length, given, stored, unsure, err)
	}
}
