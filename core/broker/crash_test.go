package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

var errBroken = errors.New("connection reset")

// brittle is one gateway's way to a store: calls on partitions fail before or
// after they were carried out, as the fault decides.
type brittle struct {
	core.Store
	mu    sync.Mutex
	fault func(call string) (before, after bool)
}

func (s *brittle) breaks(call string) (before, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		return false, false
	}
	return s.fault(call)
}

func (s *brittle) set(fault func(call string) (before, after bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Partition wraps the operations on a partition.
func (s *brittle) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: brittlePartition{s.Store.Partition(r, p), s}}
}

func (s *brittle) UpdateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	before, after := s.breaks("update")
	if before {
		return core.Entity{}, errBroken
	}
	updated, err := s.Store.UpdateEntity(ctx, e, q)
	if after {
		return core.Entity{}, errBroken
	}
	return updated, err
}

func (s *brittle) Entity(ctx context.Context, namespace, name string) (core.Entity, error) {
	if before, after := s.breaks("read"); before || after {
		return core.Entity{}, errBroken
	}
	return s.Store.Entity(ctx, namespace, name)
}

// brittlePartition is a partition of a brittle.
type brittlePartition struct {
	core.Partition
	*brittle
}

func (s brittlePartition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	before, after := s.breaks("append")
	if before {
		return failed(len(groups), errBroken)
	}
	got := s.Operations.Append(ctx, groups)
	if after {
		return failed(len(groups), errBroken)
	}
	return got
}

func (s brittlePartition) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	before, after := s.breaks("publish")
	if before {
		return failed(len(groups), errBroken)
	}
	got := s.Operations.Publish(ctx, version, groups)
	if after {
		return failed(len(groups), errBroken)
	}
	return got
}

func (s brittlePartition) Commit(ctx context.Context, w core.Work) ([]int64, error) {
	before, after := s.breaks("commit")
	if before {
		return nil, errBroken
	}
	numbers, err := s.Operations.Commit(ctx, w)
	if after {
		return nil, errBroken
	}
	return numbers, err
}

func (s brittlePartition) Lock(ctx context.Context, r core.LockRequest) ([]core.Delivery, time.Time, error) {
	before, after := s.breaks("lock")
	if before {
		return nil, time.Time{}, errBroken
	}
	ds, next, err := s.Operations.Lock(ctx, r)
	if after {
		return nil, time.Time{}, errBroken
	}
	return ds, next, err
}

func (s brittlePartition) Settle(ctx context.Context, settlements []core.Settlement) []error {
	before, after := s.breaks("settle")
	if before {
		return slices.Repeat([]error{errBroken}, len(settlements))
	}
	errs := s.Operations.Settle(ctx, settlements)
	if after {
		return slices.Repeat([]error{errBroken}, len(settlements))
	}
	return errs
}

func (s brittlePartition) Forget(ctx context.Context, keys []string) error {
	before, after := s.breaks("forget")
	if before {
		return errBroken
	}
	if err := s.Operations.Forget(ctx, keys); err != nil || !after {
		return err
	}
	return errBroken
}

// gateway is a broker that runs on a brittle way to a store.
type gateway struct {
	*Broker
	store *brittle
	end   func()
}

func startGateway(store core.Store, lines ...Pipeline) *gateway {
	return startGatewayWith(store, Options{Namespace: "ns", Pipelines: lines})
}

func startGatewayWith(store core.Store, o Options) *gateway {
	way := &brittle{Store: store}
	g := &gateway{Broker: New(way, o), store: way}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Run(ctx) // it returns nil
	}()
	g.end = func() { cancel(); <-done }
	return g
}

// kill has nothing of the gateway reach the store any more.
func (g *gateway) kill() {
	g.store.set(func(string) (before, after bool) { return true, false })
	g.end()
}

// A call of a move fails, or its answer is lost, once or for long; or the
// gateway dies there. Each message arrives once all the same.
func TestAMoveThatIsInterruptedAnywhereHappensOnce(t *testing.T) {
	for _, call := range []string{"lock", "append", "publish", "settle", "forget"} {
		for _, after := range []bool{false, true} {
			for _, dies := range []bool{false, true} {
				name := fmt.Sprint(call, " after ", after, " dies ", dies)
				inBubbleNamed(t, name, func(t *testing.T, b *started) { interrupted(t, b, call, after, dies) })
			}
		}
	}
}

func interrupted(t *testing.T, b *started, call string, after, dies bool) {
	b.stop() // it only administers
	admin := startGateway(b.store.Store)
	chain(t, admin.Broker)
	admin.end()

	victim := startGateway(b.store.Store)
	synctest.Wait()
	broke := make(chan struct{})
	var once sync.Once
	left := 3
	victim.store.set(func(c string) (bool, bool) {
		if c != call || !dies && left == 0 {
			return false, false
		}
		if left--; left < 0 { // it is dead
			return true, false
		}
		once.Do(func() { close(broke) })
		return !after, after
	})
	s, err := New(b.store.Store, Options{Namespace: "ns"}).OpenSender(t.Context(), root, core.At("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range s.Send(t.Context(), each(numbered(450)...)) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	<-broke
	if dies {
		victim.kill()
		heir := startGateway(b.store.Store)
		defer heir.end()
	} else {
		defer victim.end()
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	arrivedOnce(t, b.store.Store, 450, "z", "west")
}

// chain makes a way for messages: a → b → the topic t → its subscriptions, one
// of which forwards to z and the other to west.
func chain(t *testing.T, b *Broker) {
	t.Helper()
	s := newStarted(b, &faulty{Store: b.store}, nil)
	s.create(t, "z", partitioned)
	s.create(t, "west")
	s.createTopic(t, "t", partitioned)
	s.subscribe(t, "t", "all", nil, forwardTo("z"))
	s.subscribe(t, "t", "too", nil, forwardTo("west"))
	s.create(t, "b", forwardTo("t"))
	s.create(t, "a", forwardTo("b"), partitioned)
}

// arrivedOnce looks for messages numbered from 0 in each of the entities, and for
// what is left elsewhere.
func arrivedOnce(t *testing.T, store core.Store, n int, names ...string) {
	t.Helper()
	b := New(store, Options{Namespace: "ns"})
	defer b.stop()
	for _, name := range names {
		counts := map[string]int{}
		ent, err := store.Entity(t.Context(), "ns", name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ent.Partitions {
			ds, err := partition(&ent, uint16(i), core.Main).In(store).Peek(t.Context(), core.PeekRequest{Max: 10 * n})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				counts[string(d.Body.Bytes)]++
			}
		}
		for i := range n {
			if c := counts[fmt.Sprint(i)]; c != 1 {
				t.Errorf("%s: message %d arrived %d times", name, i, c)
			}
		}
	}
	err := b.walk(t.Context(), func(ent *core.Entity) {
		_, rt, err := b.Entity(t.Context(), root, ent.Name)
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if ent.Name == name {
				rt.Active = 0
			}
		}
		if left := rt.Active + rt.Scheduled + rt.DeadLetter + rt.Transfer + rt.TransferDeadLetter; left > 0 {
			t.Errorf("%s still holds %+v", ent.Name, rt)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Two gateways forward at the same time over a store that fails at random, and one
// after the other dies and is replaced.
func TestGatewaysThatDieAtRandomMoveEveryMessageOnce(t *testing.T) {
	for seed := range uint64(8) {
		inBubbleNamed(t, fmt.Sprint("seed ", seed), func(t *testing.T, b *started) {
			b.stop()
			atRandom(t, seed)
		})
	}
}

func atRandom(t *testing.T, seed uint64) {
	r, faults := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	store := memory.New(memory.Options{})
	admin := New(store, Options{Namespace: "ns"})
	defer admin.stop()
	chain(t, admin)
	var mu sync.Mutex
	fault := func(string) (before, after bool) {
		mu.Lock()
		defer mu.Unlock()
		n := faults.IntN(10)
		return n == 0, n == 1
	}
	gateways := []*gateway{startGateway(store), startGateway(store)}
	for _, g := range gateways {
		g.store.set(fault)
	}
	const messages = 2000
	s, err := admin.OpenSender(t.Context(), root, core.At("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := admin.OpenSender(t.Context(), root, core.At("t"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for sent := 0; sent < messages; {
		n := 1 + r.IntN(100)
		ms := make([]*core.Message, 0, n)
		for range min(n, messages-sent) {
			ms = append(ms, text(fmt.Sprint(sent)))
			sent++
		}
		to := s
		if r.IntN(4) == 0 { // scheduled on the topic
			to = direct
			for _, m := range ms {
				m.ScheduledEnqueueTime = store.Now().Add(time.Duration(1+r.IntN(90)) * time.Second)
			}
		}
		for _, a := range to.Send(t.Context(), each(ms...)) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		if r.IntN(4) == 0 {
			i := r.IntN(len(gateways))
			gateways[i].kill()
			gateways[i] = startGateway(store)
			gateways[i].store.set(fault)
		}
	}
	for _, g := range gateways {
		g.store.set(nil)
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	for _, g := range gateways {
		g.end()
	}
	arrivedOnce(t, store, messages, "z", "west")
}

// Where one gateway has the store, the locks of a forwarder that was killed end when the store opens:
// what it had locked is moved at once, and before what came later.
func TestForwardingGoesOnInOrderAsSoonAsTheStoreOpensAfterAKill(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "z")
		b.create(t, "a", forwardTo("z"))
		b.stop()
		store := b.store.Store.(*memory.Store)
		victim := startGateway(store)
		rests()
		locked := make(chan struct{})
		victim.store.set(func(call string) (before, after bool) {
			if call != "append" {
				return false, false
			}
			select {
			case <-locked:
			default:
				close(locked)
			}
			return true, false
		})
		sender, err := New(store, Options{Namespace: "ns"}).OpenSender(t.Context(), root, core.At("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		send := func(body string) {
			t.Helper()
			if a := sender.Send(t.Context(), each(text(body)))[0]; a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		send("0")
		<-locked
		victim.kill()
		store.EndLinks()
		killed := time.Now()
		heir := startGateway(store)
		defer heir.end()
		send("1")
		var got []string
		for len(got) < 2 && time.Since(killed) < time.Minute {
			rests()
			got = nil
			for _, d := range newStarted(heir.Broker, nil, nil).all(t, "z") {
				got = append(got, string(d.Body.Bytes))
			}
		}
		if took := time.Since(killed); took > 100*time.Millisecond || !slices.Equal(got, []string{"0", "1"}) {
			t.Errorf("forwarded %q after %v, want 0 and 1 at once", got, took)
		}
	})
}
