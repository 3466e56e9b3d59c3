package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func (b *started) reset(t *testing.T) {
	t.Helper()
	if err := b.Reset(t.Context(), root); err != nil {
		t.Fatalf("reset: %v", err)
	}
}

// everywhere is what the entities hold, in all sub-queues, in whatever state.
func (b *started) everywhere(t *testing.T, names ...string) (left []string) {
	t.Helper()
	for _, name := range names {
		for _, sub := range []string{"", "/$DeadLetterQueue", "/$Transfer", "/$Transfer/$DeadLetterQueue"} {
			ds, err := b.Peek(t.Context(), root, core.At(name+sub), nil, 0, 1000)
			if err != nil && core.CodeOf(err) != core.NotAllowed {
				t.Fatalf("peek %s%s: %v", name, sub, err)
			}
			if len(ds) > 0 {
				left = append(left, name+sub+": "+bodies(ds))
			}
		}
	}
	return left
}

func TestAResetRemovesAllMessagesAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.create(t, "s", sessionful)
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "sub", []core.Rule{sqlRule("r", "region = 'west'", "")})
		b.send(t, "q", numbered(20)...)
		later := text("later")
		later.ScheduledEnqueueTime = b.store.Now().Add(time.Hour)
		b.send(t, "t", with(text("1"), core.Property{Key: "region", Value: "west"}), later)
		b.send(t, "s", of("a", 0, 3)...)
		in := b.receive(t, "q", core.PeekLock, 5)
		ds := in.take()
		settle(t, b, "q", core.DeadLetterOutcome, ds[0])
		settle(t, b, "q", core.Defer, ds[1])
		sender := b.sender(t, "q")

		b.reset(t)
		if left := b.everywhere(t, "q", "s", "t", sub); len(left) > 0 {
			t.Errorf("after the reset: %q", left)
		}
		for _, err := range b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[2].LockToken}}) {
			if !errors.Is(err, core.LockLost) {
				t.Errorf("complete what was locked before: got %v, want %v", err, core.LockLost)
			}
		}
		if len(in.closures()) > 0 {
			t.Errorf("the receiver was closed: %v", in.closures())
		}
		in.AddCredit(5, core.AnyMessage)
		for _, a := range sender.Send(t.Context(), each(text("new"))) {
			if a.Err != nil {
				t.Errorf("send: %v", a.Err)
			}
		}
		if got := bodies(in.take()); got != "new" {
			t.Errorf("received %q, want the new message", got)
		}
		b.send(t, "t", with(text("west"), core.Property{Key: "region", Value: "west"}), text("east"))
		b.holds(t, map[string]string{sub: "west"})
		time.Sleep(2 * time.Hour)
		b.holds(t, map[string]string{sub: "west"})
	})
}

func TestAResetNeedsManageOnTheNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("m"))
		for what, id := range map[string]core.Identity{
			"nobody": nil, "a sender": {{Rights: core.Send | core.Listen}}, "a manager of the queue": {{Rights: core.AllRights, Scope: "q"}},
		} {
			if err := b.Reset(t.Context(), id); !errors.Is(err, core.Unauthorized) {
				t.Errorf("reset by %s: got %v, want %v", what, err, core.Unauthorized)
			}
		}
		b.holds(t, map[string]string{"q": "m"})
	})
}

func TestHoldersOfSessionsLearnOfAReset(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		b.send(t, "q", of("a", 0, 3)...)
		h := b.mustAccept(t, "q", "a")
		if err := h.SetState(t.Context(), []byte("state")); err != nil {
			t.Fatal(err)
		}
		h.AddCredit(1, core.AnyMessage)
		h.take()
		next := make(chan *holder, 1)
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			if other, err := b.accept(t.Context(), "q", "", core.PeekLock); err != nil {
				t.Errorf("accept the next session: %v", err)
			} else {
				next <- other
			}
		}()
		synctest.Wait()
		b.reset(t)
		synctest.Wait()
		if got := h.closures(); len(got) != 1 || !errors.Is(got[0], core.SessionLockLost) {
			t.Fatalf("closed with %v, want %v", got, core.SessionLockLost)
		}
		b.send(t, "q", of("b", 0, 1)...)
		<-waiting // who waited for a session goes on waiting, and gets it
		other := <-next
		other.AddCredit(5, core.AnyMessage)
		if got := bodies(other.take()); got != "b/0" {
			t.Errorf("received %q from the next session", got)
		}
		again := b.mustAccept(t, "q", "a")
		if state, err := again.State(t.Context()); err != nil || state != nil {
			t.Errorf("state after the reset: got %q, %v, want none", state, err)
		}
		b.send(t, "q", of("a", 9, 1)...)
		again.AddCredit(5, core.AnyMessage)
		if got := bodies(again.take()); got != "a/9" {
			t.Errorf("received %q from the session accepted anew", got)
		}
	})
}

// dawdling locks messages and takes a while to say so.
type dawdling struct{ core.Store }

// Partition wraps the operations on a partition.
func (s *dawdling) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: dawdlingPartition{s.Store.Partition(r, p), s}}
}

// dawdlingPartition is a partition of a dawdling.
type dawdlingPartition struct {
	core.Partition
	*dawdling
}

func (s dawdlingPartition) Lock(ctx context.Context, r core.LockRequest) ([]core.Delivery, time.Time, error) {
	ds, next, err := s.Operations.Lock(ctx, r)
	time.Sleep(time.Second)
	return ds, next, err
}

// What is locked while the reset begins is delivered before it ends, or never.
func TestNoOldMessageIsDeliveredAfterAReset(t *testing.T) {
	for name, mode := range map[string]core.ReceiveMode{"locked": core.PeekLock, "removed": core.ReceiveAndDelete} {
		inBubbleNamed(t, name, func(t *testing.T, b *started) {
			b.wrap(&dawdling{b.store.Store})
			b.create(t, "q", partitioned)
			b.send(t, "q", numbered(40)...)
			in := b.receive(t, "q", mode, 60)
			time.Sleep(time.Second / 2) // it has locked, and does not know it yet
			b.reset(t)
			in.forget()
			b.send(t, "q", text("new"), text("too"))
			time.Sleep(time.Minute / 2)
			if got := sortedBodies(in.take()); got != "new too" {
				t.Errorf("delivered after the reset: %q, want %q", got, "new too")
			}
		})
		inBubbleNamed(t, name+" in a session", func(t *testing.T, b *started) {
			b.wrap(&dawdling{b.store.Store})
			b.create(t, "q", sessionful)
			b.send(t, "q", of("a", 0, 5)...)
			h, err := b.accept(t.Context(), "q", "a", mode)
			if err != nil {
				t.Fatal(err)
			}
			h.AddCredit(10, core.AnyMessage)
			time.Sleep(time.Second / 2)
			b.reset(t)
			h.forget()
			time.Sleep(time.Minute / 2)
			if got := bodies(h.take()); got != "" {
				t.Errorf("delivered after the reset: %q", got)
			}
		})
	}
}

// forget forgets what has arrived so far.
func (in *inbox) forget() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = nil
}

// reluctant is a store in which an entity takes nothing for a while.
type reluctant struct {
	core.Store
	mu     sync.Mutex
	entity string // its ID
}

func (s *reluctant) refuse(entity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entity = entity
}

// Partition wraps the operations on a partition.
func (s *reluctant) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: reluctantPartition{s.Store.Partition(r, p), s}}
}

// reluctantPartition is a partition of a reluctant.
type reluctantPartition struct {
	core.Partition
	*reluctant
}

func (s reluctantPartition) Append(ctx context.Context, groups [][]*core.Message) []core.Appended {
	s.mu.Lock()
	refused := s.Partition.Entity == s.entity
	s.mu.Unlock()
	if refused {
		return failed(len(groups), core.Busy)
	}
	return s.Operations.Append(ctx, groups)
}

// What comes after a reset does not wait behind what was held for a destination.
func TestAResetRemovesWhatIsHeldForADestination(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		store := &reluctant{Store: b.store.Store}
		b.wrap(store)
		to := b.create(t, "to")
		b.create(t, "from", forwardTo("to"))
		store.refuse(to.ID)
		b.send(t, "from", numbered(5)...)
		time.Sleep(time.Minute) // by now it is tried seldom
		store.refuse("")
		b.reset(t)
		b.send(t, "from", text("new"))
		rests()
		b.holds(t, map[string]string{"to": "new", "from": ""})
		time.Sleep(time.Hour)
		b.holds(t, map[string]string{"to": "new", "from": ""})
	})
}

func TestAResetDoesNotWaitForRemotes(t *testing.T) {
	withRemote(t, func(t *testing.T, b *started, hq *distant) {
		hq.took = func() time.Duration { return time.Minute }
		b.create(t, "q", forwardTo("hq:orders"))
		b.send(t, "q", text("old"))
		synctest.Wait()
		began := time.Now()
		b.reset(t)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the reset took %v", took)
		}
		b.holds(t, map[string]string{"q": ""})
		b.send(t, "q", text("new"))
		time.Sleep(time.Hour)
		if got := hq.bodies(); got != "new" {
			t.Errorf("the remote has %q, want new", got)
		}
	})
}

// unclearable is a store of which some partitions cannot be cleared.
type unclearable struct {
	core.Store
	mu    sync.Mutex
	index map[uint16]bool
}

// Partition wraps the operations on a partition.
func (s *unclearable) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: unclearablePartition{s.Store.Partition(r, p), s}}
}

// unclearablePartition is a partition of an unclearable.
type unclearablePartition struct {
	core.Partition
	*unclearable
}

func (s unclearablePartition) Clear(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index[s.Partition.Index] {
		return core.Busy
	}
	return s.Operations.Clear(ctx)
}

func TestAResetThatFailsCanBeRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		store := &unclearable{Store: b.store.Store, index: map[uint16]bool{2: true}}
		b.wrap(store)
		b.create(t, "q", partitioned)
		b.create(t, "to")
		b.create(t, "from", forwardTo("to"))
		b.send(t, "q", numbered(40)...)
		if err := b.Reset(t.Context(), root); !errors.Is(err, core.Busy) {
			t.Fatalf("reset: got %v, want %v", err, core.Busy)
		}
		in := b.receive(t, "q", core.PeekLock, 100)
		if got := len(in.take()); got != 10 {
			t.Errorf("received %d messages, want those 10 of one partition", got)
		}
		b.send(t, "from", text("forwarded")) // all goes on
		rests()
		b.holds(t, map[string]string{"to": "forwarded"})
		store.mu.Lock()
		clear(store.index)
		store.mu.Unlock()
		b.reset(t)
		if left := b.everywhere(t, "q", "to", "from"); len(left) > 0 {
			t.Errorf("after the second reset: %q", left)
		}
	})
}

func TestAResetGivesUpWithItsCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.wrap(&dawdling{b.store.Store})
		in := b.receive(t, "q", core.PeekLock, 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := b.Reset(ctx, root); !errors.Is(err, core.Timeout) {
			t.Errorf("reset: got %v, want %v", err, core.Timeout)
		}
		b.send(t, "q", text("m"))
		time.Sleep(10 * time.Second)
		if got := bodies(in.take()); got != "m" {
			t.Errorf("received %q: receiving does not go on", got)
		}
	})
}

// Messages travel through queues and topics while the namespace is reset again and
// again. What was sent before a reset is nowhere afterwards, and nowhere later.
func TestNoOldMessageArrivesAfterAReset(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	b := New(store, Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = b.Run(ctx) }) // it returns nil
	defer run.Wait()
	defer cancel()
	create := func(name string, change ...func(*core.Settings)) {
		s := core.DefaultSettings(core.Queue)
		for _, c := range change {
			c(&s)
		}
		if _, err := b.CreateEntity(ctx, root, core.Queue, name, s, nil); err != nil {
			t.Fatal(err)
		}
	}
	create("end", partitioned)
	create("dead")
	create("three", forwardTo("end"))
	if _, err := b.CreateEntity(ctx, root, core.Topic, "topic", core.DefaultSettings(core.Topic), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y"} {
		s := core.DefaultSettings(core.Subscription)
		s.ForwardTo = "three"
		if _, err := b.CreateEntity(ctx, root, core.Subscription, core.SubscriptionPath("topic", name), s, nil); err != nil {
			t.Fatal(err)
		}
	}
	create("two", forwardTo("topic"))
	create("one", partitioned, forwardTo("two"))
	create("rejects", forwardDead("dead"))

	var mu sync.RWMutex // held while something of an epoch is sent
	epoch := 0
	var seen sync.Map // epochs that arrived
	var arrived atomic.Int64
	arrive := func(n int64) {
		until := arrived.Load() + n
		eventually.True(t, fmt.Sprintf("%d messages arrive", n), func() bool { return arrived.Load() >= until })
	}
	for _, name := range []string{"end", "dead", "rejects"} {
		var r core.Receiver
		r, err := b.OpenReceiver(ctx, root, core.At(name), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
			var all []core.Settlement
			for i := range ds {
				o := core.Complete
				if name == "rejects" {
					o = core.DeadLetterOutcome
				}
				seen.Store(string(ds[i].Body.Bytes), true)
				all = append(all, core.Settlement{Token: ds[i].LockToken, Outcome: o})
			}
			arrived.Add(int64(len(ds)))
			b.Settle(ctx, root, core.At(name), all) // the locks may be lost
			r.AddCredit(len(all), core.AnyMessage)
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.AddCredit(20, core.AnyMessage)
		defer r.Close()
	}
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for _, name := range []string{"one", "two", "topic", "rejects"} {
		senders.Go(func() {
			s, err := b.OpenSender(ctx, root, core.At(name), nil)
			if err != nil {
				t.Errorf("open a sender: %v", err)
				return
			}
			defer s.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.RLock()
				body := fmt.Sprint(epoch)
				answers := s.Send(ctx, each(text(body), text(body)))
				mu.RUnlock()
				for _, a := range answers {
					if a.Err != nil {
						t.Errorf("send: %v", a.Err)
						return
					}
				}
				time.Sleep(100 * time.Microsecond) // so that the chains keep up
			}
		})
	}
	peers := []string{"one", "two", "three", "end", "dead", "rejects", "topic/Subscriptions/x", "topic/Subscriptions/y"}
	check := func(now int) {
		for _, name := range peers {
			for _, sub := range []string{"", "/$DeadLetterQueue", "/$Transfer", "/$Transfer/$DeadLetterQueue"} {
				ds, err := b.Peek(ctx, root, core.At(name+sub), nil, 0, 10_000)
				if err != nil {
					t.Errorf("peek %s%s: %v", name, sub, err)
				}
				for _, d := range ds {
					if body := string(d.Body.Bytes); body != fmt.Sprint(now) {
						t.Errorf("%s%s holds a message of epoch %s after epoch %d has begun", name, sub, body, now)
						return
					}
				}
			}
		}
	}
	for range 15 {
		arrive(50)
		mu.Lock()
		epoch++
		now := epoch
		mu.Unlock()
		if err := b.Reset(ctx, root); err != nil {
			t.Errorf("reset: %v", err)
		}
		seen.Clear()
		check(now)
		arrive(10)
		check(now)
		seen.Range(func(body, _ any) bool {
			if body != fmt.Sprint(now) {
				t.Errorf("a message of epoch %v was delivered in epoch %d", body, now)
			}
			return true
		})
	}
	close(stop)
	senders.Wait()
	// The chains go on: what is sent now arrives.
	s, err := b.OpenSender(ctx, root, core.At("one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Send(ctx, each(text("last")))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, ok := seen.Load("last"); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the last message does not arrive")
		}
	}
}

func TestAResetOfNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.reset(t)
		b.stop()
		if err := b.Reset(t.Context(), root); err != nil && !strings.Contains(err.Error(), "stopping") {
			t.Errorf("reset of a broker that has stopped: %v", err)
		}
	})
}

// thinning is a store that deletes the first queue once a page of them is read.
type thinning struct {
	core.Store
	once sync.Once
}

func (s *thinning) Entities(ctx context.Context, namespace string, l core.Listing, skip, top int) ([]core.Entity, error) {
	page, err := s.Store.Entities(ctx, namespace, l, skip, top)
	if err == nil && l.Kind == core.Queue {
		s.once.Do(func() { err = s.DeleteEntity(ctx, namespace, page[0].Name) })
	}
	return page, err
}

func TestAResetLeavesNoQueueOutWhileOthersAreDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		for i := range listPage + 5 {
			name := fmt.Sprintf("q%03d", i)
			b.create(t, name)
			b.send(t, name, text("m"))
		}
		b.wrap(&thinning{Store: b.store.Store})
		if err := b.Reset(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		for i := range listPage + 4 {
			name := fmt.Sprintf("q%03d", i+1)
			if h, err := b.Holding(t.Context(), name); err != nil || h.Counts[core.Main].Ready != 0 {
				t.Errorf("%s holds %+v, %v", name, h.Counts[core.Main], err)
			}
		}
	})
}
