package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

var root = core.Identity{{Policy: "root", Rights: core.AllRights}}

// outage is an entity of four partitions, one or more of which live on a master
// that fails.
type outage struct {
	*testing.T
	cluster *redistest.Cluster
	names   string // the prefix of its keys
	broker  *broker.Broker
	sender  core.Sender
	owners  [4]int // by partition: its master
	victim  int

	mu       sync.Mutex
	acked    map[string]bool
	received map[string]bool
}

// outageEntity is the name of what is partitioned.
const outageEntity = "q"

// newOutage makes one whose catalogue and some partitions do not live on the
// victim; create makes what is partitioned.
func newOutage(t *testing.T, create func(b *broker.Broker) (core.Entity, error)) *outage {
	o := &outage{T: t, cluster: redistest.StartCluster(t, 1), names: prefix(), acked: map[string]bool{}, received: map[string]bool{}}
	s := open(t, o.cluster.URL(), redisstore.Options{Prefix: o.names})
	o.broker = broker.New(s, broker.Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.broker.Run(ctx) // it returns nil
	}()
	t.Cleanup(func() { cancel(); <-done })

	o.victim = (o.cluster.Owner(t, o.names+"{ct:ns}") + 1) % 3
	for {
		e, err := create(o.broker)
		if err != nil {
			t.Fatal(err)
		}
		o.owners = o.ownersOf(e)
		if down := o.down(); down > 0 && down < len(o.owners) {
			break
		}
		if err := o.broker.DeleteEntity(t.Context(), root, outageEntity); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if o.sender, err = o.broker.OpenSender(t.Context(), root, core.At(outageEntity), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.sender.Close)
	return o
}

// partitionedQueue makes a queue of four partitions.
func partitionedQueue(b *broker.Broker) (core.Entity, error) {
	settings := core.DefaultSettings(core.Queue)
	settings.EnablePartitioning = true
	return b.CreateEntity(context.Background(), root, core.Queue, outageEntity, settings, nil)
}

// ownersOf are the masters of an entity's partitions.
func (o *outage) ownersOf(e core.Entity) (owners [4]int) {
	for i := range owners {
		owners[i] = o.cluster.Owner(o, fmt.Sprintf("%s{%s:%d}", o.names, e.ID, i))
	}
	return owners
}

// down is the number of partitions that live on the victim.
func (o *outage) down() (n int) {
	for _, owner := range o.owners {
		if owner == o.victim {
			n++
		}
	}
	return n
}

// receive opens a receiver that completes all it gets.
func (o *outage) receive(address string) {
	r, err := o.broker.OpenReceiver(o.Context(), root, core.At(address), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
		for i, err := range o.broker.Settle(context.Background(), root, core.At(address), settlementsOf(ds)) {
			if err != nil {
				o.Errorf("complete: %v", err)
			}
			o.mu.Lock()
			o.received[string(ds[i].Body.Bytes)] = true
			o.mu.Unlock()
		}
	}})
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(r.Close)
	r.AddCredit(1<<20, core.AnyMessage)
}

// send sends one message and returns the partition it went to.
func (o *outage) send(body, key string) (partition uint16, err error) {
	m := message(body)
	m.PartitionKey = key
	return o.post(m)
}

func (o *outage) post(m *core.Message) (partition uint16, err error) {
	a := o.sender.Send(o.Context(), [][]*core.Message{{m}})[0]
	if a.Err != nil {
		return 0, a.Err
	}
	o.mu.Lock()
	o.acked[string(m.Body.Bytes)] = true
	o.mu.Unlock()
	partition, _ = core.SplitSequenceNumber(a.Numbers[0])
	return partition, nil
}

// await waits until all that was acknowledged is received.
func (o *outage) await(when string) {
	o.Helper()
	eventually.True(o, "all acknowledged messages are received "+when, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for body := range o.acked {
			if !o.received[body] {
				return false
			}
		}
		return true
	})
}

func (o *outage) availability() string {
	o.Helper()
	_, r, err := o.broker.Entity(o.Context(), root, outageEntity)
	if err != nil {
		o.Fatal(err)
	}
	return r.Availability
}

func TestAMasterThatFailsTakesOnlyItsPartitionsDown(t *testing.T) {
	t.Parallel()
	o := newOutage(t, partitionedQueue)
	o.receive(outageEntity)
	keys := map[string]bool{} // which keys' partitions are on the victim
	for i := range 40 {
		key := fmt.Sprintf("key%d", i)
		partition, err := o.send("before "+key, key)
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = o.owners[partition] == o.victim
	}
	o.await("before")
	if got := o.availability(); got != "Available" {
		t.Errorf("availability before: got %s", got)
	}

	o.cluster.KillMaster(t, o.victim)
	slowest := time.Duration(0)
	for key, down := range keys {
		began := time.Now()
		_, err := o.send("keyed "+key, key)
		slowest = max(slowest, time.Since(began))
		switch code := core.CodeOf(err); {
		case !down && err != nil:
			t.Errorf("%s, whose partition is well: got %v", key, err)
		case down && code != core.Busy:
			t.Errorf("%s, whose partition is down: got %v, want busy", key, err)
		}
	}
	for i := range 40 {
		began := time.Now()
		partition, err := o.send(fmt.Sprint("keyless ", i), "")
		slowest = max(slowest, time.Since(began))
		if err != nil || o.owners[partition] == o.victim {
			t.Errorf("without a key: got partition %d, %v, want one that is well", partition, err)
		}
	}
	o.await("while the master is down")
	if got := o.availability(); got != "Limited" {
		t.Errorf("availability while the master is down: got %s", got)
	}
	t.Logf("the slowest send took %v", slowest)

	o.cluster.AwaitPromotion(t, o.victim)
	promoted := time.Now()
	for key := range keys {
		try := 0
		o.again("send after the promotion", func() error {
			try++
			_, err := o.send(fmt.Sprint("after ", try, key), key)
			return err
		})
	}
	t.Logf("all partitions took messages %v after the promotion", time.Since(promoted))
	o.await("after the promotion")
	t.Logf("all was received %v after the promotion", time.Since(promoted))
	o.becomes("Available")
	o.hearsDoorbells()
}

// hearsDoorbells waits until the store listens to the doorbells of all partitions where they live now.
func (o *outage) hearsDoorbells() {
	o.Helper()
	nodes, _, _ := strings.Cut(strings.TrimPrefix(o.cluster.URL(), "redis://"), "/")
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(nodes, ",")})
	defer func() { _ = c.Close() }()
	e, _, err := o.broker.Entity(o.Context(), root, outageEntity)
	if err != nil {
		o.Fatal(err)
	}
	for i := range o.owners {
		channel := fmt.Sprintf("%s{%s:%d}w", o.names, e.ID, i)
		eventually.True(o, fmt.Sprintf("the store listens to the doorbell of partition %d", i), func() bool {
			listeners, err := c.SPublish(o.Context(), channel, "").Result()
			return err == nil && listeners == 1
		})
	}
}
