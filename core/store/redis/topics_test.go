package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// stand is a topic of one partition with its subscriptions.
type stand struct {
	testing.TB
	store core.Store
	topic core.Entity
	own   core.Partition
}

func newStand(tb testing.TB, s core.Store, subscriptions ...string) *stand {
	tb.Helper()
	name := fmt.Sprintf("e%d", entities.Add(1))
	topic, err := s.CreateEntity(tb.Context(), core.Entity{
		Namespace: "ns", Kind: core.Topic, Name: name, ID: name, Partitions: 1, Settings: core.DefaultSettings(core.Topic),
	}, core.NamespaceQuotas{})
	if err != nil {
		tb.Fatalf("create topic: %v", err)
	}
	st := &stand{TB: tb, store: s, topic: topic, own: topic.Partition(0, core.Main)}
	for _, subscription := range subscriptions {
		st.subscribe(s, subscription, false)
	}
	return st
}

// subscribe makes a subscription through any store, and returns its queue.
func (st *stand) subscribe(s core.Store, name string, sessions bool) core.Partition {
	st.Helper()
	settings := core.DefaultSettings(core.Subscription)
	settings.RequiresSession = sessions
	e, err := s.CreateEntity(st.Context(), core.Entity{
		Namespace: "ns", Kind: core.Subscription, Name: core.SubscriptionPath(st.topic.Name, name), ID: st.topic.ID + name,
		TopicID: st.topic.ID, Partitions: 1, Settings: settings,
	}, core.NamespaceQuotas{})
	if err != nil {
		st.Fatalf("create subscription: %v", err)
	}
	return e.Partition(0, core.Main).In(s)
}

// at is the queue of a subscription.
func (st *stand) at(name string) core.Partition {
	p := st.own
	p.Subscription, p.MaxDeliveryCount, p.MaxBytes = st.topic.ID+name, 10, 0
	return p
}

func (st *stand) version(s core.Store) int64 {
	st.Helper()
	view, err := s.Topic(st.Context(), "ns", st.topic.Name)
	if err != nil {
		st.Fatalf("topic: %v", err)
	}
	return view.Version
}

// to is a publication with a copy for each queue.
func to(m *core.Message, queues ...core.Partition) core.Publication {
	x := core.Publication{Message: m}
	for i := range queues {
		x.Copies = append(x.Copies, core.Copy{To: &queues[i], Message: m})
	}
	return x
}

func (st *stand) publish(s core.Store, version int64, group ...core.Publication) error {
	st.Helper()
	return st.own.In(s).Publish(st.Context(), version, [][]core.Publication{group})[0].Err
}

func (st *stand) mustPublish(group ...core.Publication) {
	st.Helper()
	if err := st.publish(st.store, st.version(st.store), group...); err != nil {
		st.Fatalf("publish: %v", err)
	}
}

var large = strings.Repeat("large ", 1000)

func TestABodyIsKeptOnceForAllSubscriptions(t *testing.T) {
	t.Parallel()
	names := prefix()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: names})
	st := newStand(t, s, "a", "b", "c")
	rdb, tag := server(t).Client(), names+"{"+st.topic.ID+":0}"
	bodies := func(what string, want ...string) {
		t.Helper()
		got, err := rdb.HVals(t.Context(), tag+"B").Result()
		if err != nil || !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("%s: %d bodies are kept, %v, want %d", what, len(got), err, len(want))
		}
	}
	dead := st.at("b")
	dead.Sub = core.DeadLetter
	st.mustPublish(to(message(large), st.at("a"), st.at("b"), st.at("c")))
	bodies("published", large)
	for _, q := range []string{"a", "b", "c"} {
		if stats, err := storetest.Stats(t.Context(), s, st.at(q)); err != nil || stats.Bytes > int64(len(large)) {
			t.Errorf("bytes at %s: got %d, %v, want less than the body's", q, stats.Bytes, err)
		}
	}
	ds := lock(t, s, st.at("a"), 1)
	if len(ds) != 1 || string(ds[0].Body.Bytes) != large {
		t.Fatalf("lock: got %d messages", len(ds))
	}
	if err := settle(s, st.at("a"), core.Complete, ds...); err != nil {
		t.Fatal(err)
	}
	bodies("completed in one", large)
	if err := settle(s, st.at("b"), core.DeadLetterOutcome, lock(t, s, st.at("b"), 1)...); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteEntity(t.Context(), "ns", core.SubscriptionPath(st.topic.Name, "c")); err != nil {
		t.Fatal(err)
	}
	bodies("only a dead letter is left", large)
	if ds, err := dead.In(s).Peek(t.Context(), core.PeekRequest{Max: 9}); err != nil || len(ds) != 1 || string(ds[0].Body.Bytes) != large {
		t.Fatalf("peek at dead letters: %d messages, %v", len(ds), err)
	}
	if err := settle(s, dead, core.Complete, lock(t, s, dead, 1)...); err != nil {
		t.Fatal(err)
	}
	bodies("nothing is left")

	st.mustPublish(to(message(large), st.at("a")), to(message("small"), st.at("a"), st.at("b")))
	bodies("one copy, and a small body")
	st.mustPublish(to(message(large), st.at("a"), dead))
	if err := settle(s, st.at("a"), core.Complete, lock(t, s, st.at("a"), 9)...); err != nil {
		t.Fatal(err)
	}
	bodies("copied to the dead letters", large)
	if err := s.DeleteEntity(t.Context(), "ns", st.topic.Name); err != nil {
		t.Fatal(err)
	}
	if left := keysOf(t, rdb, names, st.topic.ID); len(left) > 0 {
		t.Errorf("keys of a deleted topic: %v", left)
	}
}

// Whatever befell publications, nothing is kept about them once they are gone.
func TestADrainedTopicKeepsNothing(t *testing.T) {
	t.Parallel()
	clock, names := storetest.NewClock(), prefix()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
	st := newStand(t, s, "a", "b")
	orders := st.subscribe(s, "s", true)
	orders.LockDuration, orders.MaxDeliveryCount = 10*time.Second, 3
	st.own.LockDuration, st.own.DuplicateWindow = 10*time.Second, 5*time.Second
	queues := []core.Partition{st.at("a"), st.at("b")}
	for _, q := range queues {
		q.Sub = core.DeadLetter
		queues = append(queues, q)
	}
	version := st.version(s)
	var deferred []int64
	for i := range 300 {
		m := &core.Message{
			MessageID: core.StringID(fmt.Sprint(i / 2)), SessionID: fmt.Sprint(rand.IntN(3)),
			Body: core.Body{Bytes: []byte(large[:rand.IntN(2)*2000])}, Transit: &core.Transit{Key: fmt.Sprint("k", i/2)},
		}
		if rand.IntN(2) == 0 {
			m.TimeToLive = time.Duration(1+rand.IntN(60)) * time.Second
		}
		targets := append([]core.Partition{orders}, queues...)
		rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		x := to(m, targets[:rand.IntN(len(targets)+1)]...)
		if rand.IntN(4) == 0 {
			m.ScheduledEnqueueTime = clock.Now().Add(time.Duration(rand.IntN(20)) * time.Second)
		}
		if err := st.publish(s, version, x); err != nil {
			t.Fatal(err)
		}
		for _, d := range lock(t, s, st.own, 2) { // what was scheduled
			x := to(d.Message, targets...)
			if x.Source = d.LockToken; rand.IntN(4) > 0 {
				if err := st.publish(s, version, x); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, q := range queues {
			befallAt(t, s, clock, q, &deferred)
		}
		befallSessions(t, s, clock, orders)
		if i%50 == 49 {
			if err := st.own.In(s).Forget(t.Context(), []string{fmt.Sprint("k", i/2)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.Advance(48 * time.Hour) // all locks end, all schedules are due, keys of moves are old
	for _, d := range lock(t, s, st.own, 1000) {
		x := to(d.Message, queues...)
		x.Source = d.LockToken
		if err := st.publish(s, version, x); err != nil {
			t.Fatal(err)
		}
	}
	last := to(&core.Message{MessageID: core.StringID("last"), Transit: &core.Transit{Key: "last"}})
	if err := st.publish(s, version, last); err != nil { // clears what is too old to matter
		t.Fatal(err)
	}
	for _, q := range queues {
		drainAll(t, s, q)
	}
	drainSessions(t, s, orders)
	orders.Sub, orders.Sessions = core.DeadLetter, false
	drainAll(t, s, orders)
	if got, err := server(t).Client().ZRange(t.Context(), names+"{"+st.topic.ID+":0}k", 0, -1).Result(); err != nil || !slices.Equal(got, []string{"last"}) {
		t.Errorf("keys of moves: got %v, %v, want the last only", got, err)
	}
	for _, key := range keysOf(t, server(t).Client(), names, st.topic.ID) {
		if kind := key[len(key)-1:]; !strings.Contains("mhS", kind) && key != "k" && key != "u" {
			t.Errorf("key %q is left", key)
		}
	}
}

// befallAt does one thing of many to what is in a queue.
func befallAt(t *testing.T, s core.Store, clock *storetest.Clock, p core.Partition, deferred *[]int64) {
	t.Helper()
	ds := lock(t, s, p, rand.IntN(4))
	clock.Advance(time.Duration(rand.IntN(1000)) * time.Millisecond)
	for _, d := range ds {
		o := core.Outcome(rand.IntN(int(core.Release) + 2))
		if o <= core.Release { // else its lock ends by itself
			_ = p.In(s).Settle(t.Context(), []core.Settlement{{Token: d.LockToken, Outcome: o}}) // the lock may have ended
		}
		if o == core.Defer {
			*deferred = append(*deferred, d.SequenceNumber)
		}
	}
}

// A publication is judged by the subscriptions there are, whichever gateway
// changed them.
func TestTheOtherGatewayIsFencedOff(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		st := newStand(t, a, "a")
		heard := make(chan string, 100)
		defer b.WatchEntities(func(_, name string) { heard <- name })()
		conflict := func(what string, version int64) {
			t.Helper()
			if err := st.publish(b, version, to(message(what), st.at("a"))); core.CodeOf(err) != core.Conflict {
				t.Errorf("%s: got %v, want a conflict", what, err)
			}
			if err := st.publish(b, st.version(b), to(message(what), st.at("a"))); err != nil {
				t.Errorf("%s, with the new version: %v", what, err)
			}
		}
		old := st.version(b)
		st.subscribe(a, "new", false)
		conflict("created", old)
		old = st.version(b)
		path := core.SubscriptionPath(st.topic.Name, "new")
		e, err := a.Entity(t.Context(), "ns", path)
		if err != nil {
			t.Fatal(err)
		}
		e.Rules = []core.Rule{{Name: "r"}}
		if _, err := a.UpdateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
			t.Fatal(err)
		}
		conflict("updated", old)
		old = st.version(b)
		if err := a.DeleteEntity(t.Context(), "ns", path); err != nil {
			t.Fatal(err)
		}
		conflict("deleted", old)
		for _, want := range []string{core.FoldName(path), st.topic.Name, core.FoldName(path), st.topic.Name, core.FoldName(path), st.topic.Name} {
			for deadline, got := time.After(patience), ""; got != want; {
				select {
				case got = <-heard: // the making of the stand may be heard of too
				case <-deadline:
					t.Fatalf("did not hear of %q", want)
				}
			}
		}
	})
}

// A gateway that dies between changing the catalogue and telling the partitions
// leaves the telling to whoever reads the topic next.
func TestAFenceThatWasNotSetIsSetByTheNextReader(t *testing.T) {
	t.Parallel()
	names := prefix()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: names})
	st := newStand(t, s, "a")
	old := st.version(s)
	rdb := server(t).Client()
	for _, key := range []string{"v", "f"} {
		if err := rdb.HSet(t.Context(), names+"{ct:ns}"+key, st.topic.ID, old+1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.publish(s, old, to(message("x"), st.at("a"))); err != nil {
		t.Fatalf("before anybody looked: %v", err)
	}
	if got := st.version(s); got != old+1 {
		t.Fatalf("version: got %d, want %d", got, old+1)
	}
	if err := st.publish(s, old, to(message("x"), st.at("a"))); core.CodeOf(err) != core.Conflict {
		t.Errorf("after somebody looked: got %v, want a conflict", err)
	}
	if n, err := rdb.Exists(t.Context(), names+"{ct:ns}f").Result(); err != nil || n != 0 {
		t.Errorf("fences to set: got %d, %v, want none", n, err)
	}
}

func TestManySubscriptionsAndLongGroups(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	st := newStand(t, s)
	var queues []core.Partition
	for i := range 150 {
		queues = append(queues, st.subscribe(s, fmt.Sprint("s", i), false))
	}
	var group []core.Publication
	for i := range 30 {
		group = append(group, to(message(fmt.Sprint(i, large)), queues...))
	}
	st.mustPublish(group...)
	for _, q := range []core.Partition{queues[0], queues[77], queues[149]} {
		ds := lock(t, s, q, 100)
		if len(ds) != len(group) {
			t.Fatalf("got %d messages, want %d", len(ds), len(group))
		}
		for i, d := range ds {
			if string(d.Body.Bytes) != fmt.Sprint(i, large) || d.EnqueuedSequenceNumber != int64(i+1) {
				t.Errorf("message %d came as %d: %.10s", i, d.EnqueuedSequenceNumber, d.Body.Bytes)
			}
		}
	}
	view, err := s.Topic(t.Context(), "ns", st.topic.Name)
	if err != nil || len(view.Subscriptions) != len(queues) {
		t.Errorf("topic: %d subscriptions, %v", len(view.Subscriptions), err)
	}
}

// Whoever still uses a topic while it is deleted, one of its subscriptions
// before it, brings none of their keys back.
func TestADeletedTopicLeavesNoKeys(t *testing.T) {
	t.Parallel()
	names := prefix()
	o := redisstore.Options{Prefix: names}
	stores := []core.Store{open(t, server(t).URL(), o), open(t, server(t).URL(), o)}
	for range 5 {
		st := newStand(t, stores[0], "a", "b")
		orders := st.subscribe(stores[0], "s", true)
		orders.LockDuration, orders.MaxDeliveryCount = 20*time.Millisecond, 2
		a, b := st.at("a"), st.at("b")
		a.LockDuration, a.MaxDeliveryCount, a.DeadLetterExpired = 20*time.Millisecond, 2, true
		deadLetters := a
		deadLetters.Sub = core.DeadLetter
		version := st.version(stores[0])
		running, stop := context.WithCancel(t.Context())
		var users sync.WaitGroup
		var used atomic.Int64
		busy := func(n int64) {
			until := used.Load() + n
			eventually.True(t, fmt.Sprintf("%d operations are done", n), func() bool { return used.Load() >= until })
		}
		for i := range 8 {
			s := stores[i%2]
			users.Go(func() {
				for ; running.Err() == nil; used.Add(1) {
					switch rand.IntN(4) {
					case 0:
						useTopic(t, s, st, version, a, b, orders)
					case 1:
						useSession(t, s, orders)
					default:
						p := []core.Partition{a, b, deadLetters}[rand.IntN(3)]
						ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 5}})
						if err != nil {
							t.Errorf("lock: %v", err)
						}
						for _, d := range ds {
							_ = p.In(s).Settle(t.Context(), []core.Settlement{{Token: d.LockToken, Outcome: core.Outcome(rand.IntN(int(core.Release) + 1))}})
						}
					}
				}
			})
		}
		busy(100)
		gone := names + "{" + st.topic.ID + ":0}" + st.topic.ID + "b:"
		for _, name := range []string{core.SubscriptionPath(st.topic.Name, "b"), st.topic.Name} {
			if err := stores[1].DeleteEntity(t.Context(), "ns", name); err != nil {
				t.Error(err)
			}
			busy(50)
			left, err := server(t).Client().Keys(t.Context(), gone+"*").Result()
			if left = slices.DeleteFunc(left, isReceipt); err != nil || len(left) > 0 {
				t.Errorf("after %s is deleted: %v, %v", name, left, err)
			}
		}
		stop()
		users.Wait()
		if err := st.publish(stores[0], version+1, to(message("late"), a)); core.CodeOf(err) != core.NotFound {
			t.Errorf("publish to a deleted topic: got %v", err)
		}
		if left := keysOf(t, server(t).Client(), names, st.topic.ID); len(left) > 0 {
			t.Errorf("keys of a deleted topic: %v", left)
		}
	}
}

// useTopic publishes to a topic that may be gone.
func useTopic(t *testing.T, s core.Store, st *stand, version int64, queues ...core.Partition) {
	m := message(large)
	m.SessionID = fmt.Sprint(rand.IntN(3))
	m.TimeToLive = time.Duration(rand.IntN(40)) * time.Millisecond
	x := to(m, queues...)
	if rand.IntN(3) == 0 {
		m.ScheduledEnqueueTime = s.Now().Add(time.Duration(rand.IntN(50)) * time.Millisecond)
	}
	err := st.publish(s, version+int64(rand.IntN(2)), x)
	if code := core.CodeOf(err); err != nil && code != core.NotFound && code != core.Conflict {
		t.Errorf("publish: %v", err)
	}
	if ds, _, err := st.own.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 3}}); err != nil {
		t.Errorf("lock what is due: %v", err)
	} else if len(ds) > 0 {
		x := to(ds[0].Message, queues...)
		x.Source = ds[0].LockToken
		_ = st.publish(s, version, x) // it may have gone
	}
}

// useSession does one thing of many in a session of an entity that may be gone.
func useSession(t *testing.T, s core.Store, p core.Partition) {
	ctx := t.Context()
	l, ok, _, err := p.In(s).AcceptSession(ctx, core.SessionRequest{Next: true})
	if err != nil || !ok {
		if l, _, _, err = p.In(s).AcceptSession(ctx, core.SessionRequest{ID: fmt.Sprint(rand.IntN(3))}); err != nil {
			return
		}
	}
	ds, _, _ := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 3}, Session: &l})
	_ = p.In(s).SetSessionState(ctx, l, []byte("x"))
	_, _ = p.In(s).RenewSession(ctx, l)
	for _, d := range ds {
		_ = p.In(s).Settle(ctx, []core.Settlement{{Token: d.LockToken, Outcome: core.Outcome(rand.IntN(int(core.Release) + 1))}})
	}
	if rand.IntN(2) == 0 {
		_ = p.In(s).ReleaseSession(ctx, l)
	}
}

// Lua prints numbers with 14 digits unless told otherwise; what is published and
// what is in sessions has numbers of its own.
func TestNumbersOfTopicsAndSessionsBeyondWhatLuaPrints(t *testing.T) {
	t.Parallel()
	clock, names := storetest.NewClock(), prefix()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
	st := newStand(t, s, "a")
	orders := st.subscribe(s, "s", true)
	const high = 1<<47 + 1<<46 + 12345 // 211106232545337
	rdb, tag := server(t).Client(), names+"{"+st.topic.ID+":0}"
	for _, q := range []string{tag, tag + st.topic.ID + "a:", tag + st.topic.ID + "s:"} {
		if err := rdb.Do(t.Context(), "XSETID", q+"m", "0-211106232545337").Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.HSet(t.Context(), q+"h", "s", high, "c", high).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got, wanted int64) {
		t.Helper()
		if got != wanted {
			t.Errorf("%s: got %d, want %d", what, got, wanted)
		}
	}
	publish := func(x core.Publication) int64 {
		t.Helper()
		a := st.own.In(s).Publish(t.Context(), st.version(s), [][]core.Publication{{x}})
		if a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		return a[0].Numbers[0]
	}
	m := message(large)
	m.SessionID, m.TimeToLive = "x", time.Hour
	want("published", publish(to(m, st.at("a"), orders)), high+1)
	later := message("later")
	later.SessionID, later.ScheduledEnqueueTime = "x", clock.Now().Add(time.Second)
	want("scheduled", publish(to(later)), high+2)
	clock.Advance(time.Second)
	due := lock(t, s, st.own, 9)
	if len(due) != 1 {
		t.Fatalf("due: got %d messages, want 1", len(due))
	}
	want("due", due[0].SequenceNumber, high+3)
	x := to(due[0].Message, st.at("a"), orders)
	x.Source = due[0].LockToken
	want("published when due", publish(x), high+3)

	l := accept(t, s, orders, "x")
	for what, ds := range map[string][]core.Delivery{"in a": lock(t, s, st.at("a"), 9), "in a session": lockIn(t, s, orders, l, 9)} {
		if len(ds) != 2 || string(ds[0].Body.Bytes) != large {
			t.Fatalf("%s: got %d messages, want 2", what, len(ds))
		}
		want(what, ds[0].SequenceNumber, high+1)
		want(what+", of the topic", ds[0].EnqueuedSequenceNumber, high+1)
		want(what, ds[1].SequenceNumber, high+2)
		want(what+", of the topic", ds[1].EnqueuedSequenceNumber, high+3)
		if what == "in a" {
			continue
		}
		if err := settle(s, orders, core.Abandon, ds[1]); err != nil {
			t.Fatal(err)
		}
		if err := orders.In(s).ReleaseSession(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		l, ok, _, err := orders.In(s).AcceptSession(t.Context(), core.SessionRequest{Next: true})
		if err != nil || !ok {
			t.Fatalf("accept next: %v, %v", ok, err)
		}
		again := lockIn(t, s, orders, l, 9)
		if len(again) != 2 {
			t.Fatalf("again: got %d messages, want 2", len(again))
		}
		want("again", again[0].SequenceNumber, high+1)
		want("again", again[1].SequenceNumber, high+2)
		if err := settle(s, orders, core.Complete, again...); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := rdb.HLen(t.Context(), tag+"B").Result(); err != nil || n != 1 {
		t.Errorf("bodies: got %d, %v, want that of the copy in a", n, err)
	}
}
