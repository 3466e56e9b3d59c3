package redis_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// gateways opens two stores on the same data.
func gateways(t *testing.T, url string) (a, b *redisstore.Store) {
	t.Helper()
	o := redisstore.Options{Prefix: prefix()}
	return open(t, url, o), open(t, url, o)
}

// deployments are the kinds of Redis that sharing is shown on.
func deployments(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	for name, url := range map[string]string{"single": server(t).URL(), "cluster": clusterURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, url)
		})
	}
}

// patience is how long a test waits for what happens at once.
const patience = eventually.Bound

func TestAnyGatewaySettlesAnyLock(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		p := queue(t, a)
		send(t, a, p, "x", "y")
		ds := lock(t, b, p, 2)
		if r := p.In(a).Renew(t.Context(), []core.LockToken{ds[0].LockToken}); r[0].Err != nil {
			t.Errorf("renew elsewhere: %v", r[0].Err)
		}
		if err := settle(a, p, core.Complete, ds...); err != nil {
			t.Errorf("complete elsewhere: %v", err)
		}
		if err := settle(b, p, core.Complete, ds[0]); core.CodeOf(err) != core.LockLost {
			t.Errorf("complete again: got %v, want lock_lost", err)
		}
	})
}

func TestADoorbellIsHeardByTheOtherGateway(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		p := queue(t, a)
		rung := make(chan struct{}, 1000)
		stop := p.In(b).Watch(core.WakeFunc(func(core.SessionKey) {
			select {
			case rung <- struct{}{}:
			default:
			}
		}))
		defer stop()
		// next waits for a ring, then locks until nothing is left, as a waiting receiver does.
		next := func() (bodies []string) {
			t.Helper()
			deadline := time.After(patience)
			for len(bodies) == 0 {
				for _, d := range lock(t, b, p, 100) {
					bodies = append(bodies, string(d.Body.Bytes))
					if err := settle(b, p, core.Complete, d); err != nil {
						t.Fatalf("complete: %v", err)
					}
				}
				if len(bodies) > 0 {
					return bodies
				}
				select {
				case <-rung:
				case <-deadline:
					t.Fatal("nobody rang")
				}
			}
			return bodies
		}
		for _, body := range []string{"one", "two", "three"} {
			var sender sync.WaitGroup
			sender.Go(func() { send(t, a, p, body) })
			if got := next(); len(got) != 1 || got[0] != body {
				t.Fatalf("got %q, want %q", got, body)
			}
			sender.Wait()
		}
	})
}

func TestABusyPartitionIsNotRung(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{})
	p := queue(t, s)
	published := func() int64 {
		t.Helper()
		return callsOf(t, server, "spublish")
	}
	for range 10 {
		send(t, s, p, "x", "y")
		lock(t, s, p, 1) // finds as many as it asks for: nobody waits
	}
	if got := published(); got != 0 {
		t.Errorf("doorbells rung while nobody waits: got %d, want 0", got)
	}
	lock(t, s, p, 100) // comes back short
	send(t, s, p, "x")
	send(t, s, p, "y")
	if got := published(); got != 1 {
		t.Errorf("doorbells rung for two sends to one who waits: got %d, want 1", got)
	}
}

func TestTheOtherGatewayHearsOfEntities(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		heard := make(chan string, 100)
		defer b.WatchEntities(func(namespace, name string) { heard <- namespace + "/" + name })()
		if _, err := a.CreateEntity(t.Context(), core.Entity{Namespace: "ns", Name: "Told", ID: "told", Partitions: 2}, core.NamespaceQuotas{}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if got != "ns/told" {
				t.Errorf("heard %q, want ns/told", got)
			}
		case <-time.After(patience):
			t.Error("heard nothing")
		}
	})
}

func TestAfterALostConnectionChangesMayHaveBeenMissed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := open(t, server.URL(), redisstore.Options{})
	heard := make(chan string, 100)
	defer s.WatchEntities(func(namespace, name string) { heard <- namespace + "/" + name })()
	server.Restart(t)
	select {
	case got := <-heard:
		if got != "/" {
			t.Errorf("heard %q, want two empty strings", got)
		}
	case <-time.After(patience):
		t.Error("heard nothing")
	}
}

// A gateway that leaves may have known of messages to forward, and may have died before it published
// that there are messages.
func TestAGatewayThatLeavesIsNoticed(t *testing.T) {
	t.Parallel()
	for how, leave := range map[string]func(t *testing.T, s *redisstore.Store, between *redistest.Proxy){
		"it stops": func(t *testing.T, s *redisstore.Store, _ *redistest.Proxy) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		},
		"it dies": func(_ *testing.T, _ *redisstore.Store, between *redistest.Proxy) {
			between.Meddle(func(redistest.Request) error { return errors.New("it is dead") })
			between.Break()
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, redistest.Options{})
			between := redistest.Proxied(t, r)
			const prefix = "p:"
			leaving, staying := open(t, between.URL(), redisstore.Options{Prefix: prefix}), open(t, r.URL(), redisstore.Options{Prefix: prefix})
			heard := make(chan string, 100)
			defer staying.WatchEntities(func(namespace, name string) { heard <- namespace + "/" + name })()
			registered := func() []string {
				all, err := r.Client().HVals(t.Context(), prefix+"{ct}g").Result()
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			var first []string
			eventually.True(t, "both are registered", func() bool {
				first = registered()
				return len(first) == 2
			})
			eventually.True(t, "both register again, and so know of each other", func() bool {
				return !slices.ContainsFunc(registered(), func(each string) bool { return slices.Contains(first, each) })
			})
			leave(t, leaving, between)
			if got := await(t, heard); got != "/" {
				t.Errorf("heard %q, want two empty strings", got)
			}
		})
	}
}

// A gateway that does not know how large messages are locks one first, and then others.
func TestMessagesThatAreUnlockedDuringALockComeInOrder(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	between := redistest.Proxied(t, r)
	a, b := open(t, r.URL(), redisstore.Options{Prefix: "p:"}), open(t, between.URL(), redisstore.Options{Prefix: "p:"})
	p := queue(t, a)
	for range 3 {
		if got := p.In(a).Append(t.Context(), [][]*core.Message{{message("m")}}); got[0].Err != nil {
			t.Fatal(got[0].Err)
		}
	}
	first, _, err := p.In(a).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
	if err != nil || len(first) != 1 {
		t.Fatalf("locked %d messages, %v", len(first), err)
	}
	var unlock sync.Once
	between.Meddle(func(redistest.Request) error {
		if stats, err := storetest.Stats(t.Context(), a, p); err == nil && stats.Locked == 2 {
			unlock.Do(func() {
				p.In(a).Settle(t.Context(), []core.Settlement{{Token: first[0].LockToken, Outcome: core.Release}})
			})
		}
		return nil
	})
	ds, _, err := p.In(b).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 10}})
	var got []int64
	for i := range ds {
		got = append(got, ds[i].SequenceNumber)
	}
	if want := []int64{1, 2, 3}; err != nil || !slices.Equal(got, want) {
		t.Errorf("locked %v, %v, want %v", got, err, want)
	}
}

func TestAWaitingReceiverIsRungAfterTheServerRestarts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	a, b := gateways(t, server.URL())
	p := queue(t, a)
	rung := make(chan struct{}, 1000)
	defer p.In(b).Watch(core.WakeFunc(func(core.SessionKey) { rung <- struct{}{} }))()
	lock(t, b, p, 1)
	server.Restart(t)
	deadline := time.After(patience)
	for sent := false; ; {
		if !sent {
			sent = p.In(a).Append(t.Context(), [][]*core.Message{{message("x")}})[0].Err == nil
		}
		select {
		case <-rung:
			if ds, _, err := p.In(b).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}}); err == nil && len(ds) == 1 {
				return
			}
		case <-deadline:
			t.Fatal("the message was not received")
		}
	}
}

// A client that dies between storing and ringing leaves the doorbell armed and
// messages behind it.
func TestMessagesBehindAnArmedDoorbellAreFound(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: "armed:"})
	p := queue(t, s)
	rung := make(chan struct{}, 1000)
	defer p.In(s).Watch(core.WakeFunc(func(core.SessionKey) { rung <- struct{}{} }))()
	lock(t, s, p, 1)
	send(t, s, p, "x")
	key := "armed:{" + p.Entity + ":0}h"
	if err := server(t).Client().HSet(t.Context(), key, "w", 1).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(patience); ; {
		for len(rung) > 0 {
			<-rung
		}
		select {
		case <-rung:
			return
		case <-deadline:
			t.Fatal("nobody looked around")
		}
	}
}

// Lua prints numbers with 14 digits unless told otherwise, and doubles end at 2^53.
func TestNumbersBeyondWhatLuaPrints(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	prefix := prefix()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: prefix})
	p := queue(t, s)
	p.DuplicateWindow = time.Minute
	p.DeadLetterExpired = true
	p.MaxDeliveryCount = 2
	const high = 1<<47 + 1<<46 + 12345 // 211106232545337
	rdb, tag := server(t).Client(), prefix+"{"+p.Entity+":0}"
	for _, q := range []string{tag, tag + "$"} {
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
	want("plain", send(t, s, p, "plain")[0], high+1)
	timed := &core.Message{MessageID: core.StringID("id"), TimeToLive: time.Minute, Body: core.Body{Bytes: []byte("timed")}}
	later := &core.Message{ScheduledEnqueueTime: clock.Now().Add(time.Second), Body: core.Body{Bytes: []byte("later")}}
	a := p.In(s).Append(t.Context(), [][]*core.Message{{timed, later}})
	if a[0].Err != nil {
		t.Fatal(a[0].Err)
	}
	want("with a time to live", a[0].Numbers[0], high+2)
	want("scheduled", a[0].Numbers[1], high+3)
	ds := lock(t, s, p, 9)
	if len(ds) != 2 {
		t.Fatalf("lock: got %d messages, want 2", len(ds))
	}
	want("locked", ds[1].SequenceNumber, high+2)
	if err := settle(s, p, core.Defer, ds[1]); err != nil {
		t.Fatal(err)
	}
	if err := settle(s, p, core.Abandon, ds[0]); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	ds = lock(t, s, p, 9)
	if len(ds) != 2 {
		t.Fatalf("lock again: got %d messages, want 2", len(ds))
	}
	want("redelivered", ds[0].SequenceNumber, high+1)
	want("activated", ds[1].SequenceNumber, high+4)
	if err := settle(s, p, core.Abandon, ds[0]); err != nil {
		t.Fatal(err)
	}
	deferred, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: []int64{high + 2}, Deferred: true})
	if err != nil || len(deferred) != 1 {
		t.Fatalf("lock deferred: %v, %d messages", err, len(deferred))
	}
	if err := settle(s, p, core.Complete, ds[1], deferred[0]); err != nil {
		t.Fatal(err)
	}
	dead := p
	dead.Sub = core.DeadLetter
	ds = lock(t, s, dead, 9)
	if len(ds) != 1 {
		t.Fatalf("dead letters: got %d, want 1", len(ds))
	}
	want("dead letter", ds[0].SequenceNumber, high+1)
	want("number in the queue", ds[0].EnqueuedSequenceNumber, high+1)
}

// Scheduled messages leave gaps in the numbers, which a lock call walks in
// steps of bounded length.
func TestAMessageBehindManyGapsIsFound(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now})
	p := queue(t, s)
	send(t, s, p, "first")
	later := make([]*core.Message, 1000)
	for i := range later {
		later[i] = &core.Message{ScheduledEnqueueTime: clock.Now().Add(time.Hour)}
	}
	for range 25 {
		if a := p.In(s).Append(t.Context(), [][]*core.Message{later}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
	send(t, s, p, "last")
	ds, next, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 3}})
	if err != nil || len(ds) != 2 || string(ds[1].Body.Bytes) != "last" {
		t.Fatalf("lock: got %d messages, %v, want the first and the last", len(ds), err)
	}
	if !next.Equal(ds[0].LockedUntil) {
		t.Errorf("next: got %v, want the end of the locks, %v", next, ds[0].LockedUntil)
	}
	clock.Advance(time.Hour)
	stats, err := storetest.Stats(t.Context(), s, p)
	if stats.Bytes = 0; err != nil || stats != (core.Stats{Ready: 25_002, Enqueued: 50_002}) {
		t.Errorf("an hour later: got %+v, %v, want all ready, those that were scheduled with a second number", stats, err)
	}
}

func TestANodeOfAClusterIsEnough(t *testing.T) {
	t.Parallel()
	clusterURL(t)
	s := open(t, cluster.NodeURL(1), redisstore.Options{})
	if got := s.About(t.Context()).Engine; got != "redis cluster" {
		t.Errorf("engine: got %q, want the cluster to be found out", got)
	}
	if err := s.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	for range 10 { // entities in all sorts of slots
		p := queue(t, s)
		send(t, s, p, "x")
		if ds := lock(t, s, p, 1); len(ds) != 1 {
			t.Errorf("lock: got %d messages, want 1", len(ds))
		}
	}
}

func TestAFailOverIsFollowed(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1)
	s := open(t, sentinel.URL(), redisstore.Options{})
	if got := s.About(t.Context()).Engine; got != "redis sentinel" {
		t.Errorf("engine: got %q", got)
	}
	p := queue(t, s)
	rung := make(chan struct{}, 1000)
	defer p.In(s).Watch(core.WakeFunc(func(core.SessionKey) { rung <- struct{}{} }))()
	send(t, s, p, "before")
	held := lock(t, s, p, 9)
	sentinel.FailOver(t)
	eventually.True(t, "the store finds the new master", func() bool {
		return p.In(s).Append(t.Context(), [][]*core.Message{{message("after")}})[0].Err == nil
	})
	if err := settle(s, p, core.Complete, held...); err != nil {
		t.Errorf("complete after the fail-over: %v", err)
	}
	if ds := lock(t, s, p, 9); len(ds) != 1 || string(ds[0].Body.Bytes) != "after" {
		t.Errorf("after the fail-over: got %d messages, want the one sent then", len(ds))
	}
}

func TestAboutWarnsOfWhatMayBeLost(t *testing.T) {
	t.Parallel()
	volatile := redistest.Start(t, redistest.Options{})
	if err := volatile.Client().ConfigSet(t.Context(), "maxmemory", "1gb").Err(); err != nil {
		t.Fatal(err)
	}
	if err := volatile.Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	a := open(t, volatile.URL(), redisstore.Options{}).About(t.Context())
	all := strings.Join(a.Warnings, " ")
	if a.Durable || len(a.Warnings) != 2 || !strings.Contains(all, "appendonly yes") || !strings.Contains(all, "noeviction") {
		t.Errorf("a server that keeps nothing: got %+v, want two warnings with their remedies", a)
	}
	durable := redistest.Start(t, redistest.Options{AOF: "everysec"})
	if a := open(t, durable.URL(), redisstore.Options{}).About(t.Context()); !a.Durable || len(a.Warnings) != 0 || a.Engine != "redis" {
		t.Errorf("a server that keeps all: got %+v, want durable without a warning", a)
	}
}

func TestOutOfMemoryIsBusyAndCanBeDrained(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{})
	p := queue(t, s)
	send(t, s, p, "a", "b")
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if a := p.In(s).Append(t.Context(), [][]*core.Message{{message("c")}}); core.CodeOf(a[0].Err) != core.Busy {
		t.Errorf("append: got %v, want busy", a[0].Err)
	}
	if err := s.Probe(t.Context()); core.CodeOf(err) != core.Busy {
		t.Errorf("probe: got %v, want busy", err)
	}
	ds := lock(t, s, p, 2)
	if err := settle(s, p, core.Complete, ds...); err != nil {
		t.Errorf("complete: %v", err)
	}
}

// A message expires that another gateway has sent, while a receiver waits here for dead letters.
func TestAMessageBecomesADeadLetterAtItsTimeForAnotherGateway(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		a, b := gateways(t, url)
		q := queue(t, a)
		q.DeadLetterExpired = true
		q = q.In(a)
		letters := q
		letters.Sub = core.DeadLetter
		receiver := watch(t, b, letters, 0)
		m := message("m")
		m.TimeToLive = 2 * time.Second
		if err := q.Append(t.Context(), [][]*core.Message{{m}})[0].Err; err != nil {
			t.Fatal(err)
		}
		expiry := b.Now().Add(m.TimeToLive)
		for {
			await(t, receiver.woken)
			if ds := lock(t, b, letters, 1); len(ds) == 1 {
				break
			}
		}
		t.Logf("received %v after its expiry", b.Now().Sub(expiry))
	})
}

// A gateway dies that holds a session and messages for work of its own. The others end its locks once its
// registration has not changed for ten seconds, and deliver what they held without a failed delivery.
func TestTheLocksOfAGatewayEndWithItsRegistration(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	between := redistest.Proxied(t, r)
	dead, alive := open(t, between.URL(), redisstore.Options{Prefix: "p"}), open(t, r.URL(), redisstore.Options{Prefix: "p"})
	of := sessions(t, alive)
	of.LockDuration = 5 * time.Minute
	sendIn(t, alive, of, "s", "in a session")
	held := accept(t, dead, of.In(dead), "s")
	lockIn(t, dead, of.In(dead), held, 1)
	forwarding := queue(t, alive)
	forwarding.LockDuration = 5 * time.Minute
	receiving := forwarding.In(dead)
	forwarding.BrokerLocks = true
	send(t, alive, forwarding, "of a receiver", "of a forwarder")
	lock(t, dead, receiving, 1)
	lock(t, dead, forwarding.In(dead), 1)
	waiting := watch(t, alive, forwarding.In(alive), 0)

	between.Meddle(func(redistest.Request) error { return errors.New("it is dead") })
	between.Break()
	eventually.True(t, "the session is free", func() bool {
		l, ok, _, err := of.In(alive).AcceptSession(t.Context(), core.SessionRequest{ID: "s"})
		if core.CodeOf(err) == core.SessionLocked {
			return false
		}
		if err != nil || !ok {
			t.Fatalf("accept: got %t, %v", ok, err)
		}
		ds := lockIn(t, alive, of.In(alive), l, 1)
		if len(ds) != 1 || ds[0].DeliveryCount != 0 {
			t.Errorf("in the session: got %+v, want its message, without a failed delivery", ds)
		}
		return true
	})
	for {
		await(t, waiting.woken)
		if ds := lock(t, alive, forwarding, 9); len(ds) > 0 {
			if len(ds) != 1 || string(ds[0].Body.Bytes) != "of a forwarder" || ds[0].DeliveryCount != 0 {
				t.Errorf("free: got %v, want what the forwarder held, without a failed delivery", texts(ds))
			}
			return
		}
	}
}
