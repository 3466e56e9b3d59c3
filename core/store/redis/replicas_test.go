//go:build unix

package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// promise is a call that waits for replicas, at a store of its own.
type promise struct {
	*testing.T
	*redisstore.Store
	id   int64
	what string
	call func() error
}

// promises prepares each call that waits for replicas, also those that find that all was done before.
func promises(t *testing.T, open func() *redisstore.Store) (all []*promise) {
	add := func(what string, prepare func(p *promise) (call func() error)) {
		p := &promise{T: t, Store: open(), id: entities.Add(1), what: what}
		p.call = prepare(p)
		all = append(all, p)
	}
	group := func(bodies ...string) [][]*core.Message {
		var ms []*core.Message
		for _, body := range bodies {
			ms = append(ms, message(body))
		}
		return [][]*core.Message{ms}
	}
	errorOf := func(a []core.Appended) error { return a[0].Err }
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add("a message", func(p *promise) func() error {
		q := queue(t, p)
		return func() error { return errorOf(q.Append(ctx, group("m"))) }
	})
	add("a batch", func(p *promise) func() error {
		q := queue(t, p)
		return func() error { return errorOf(q.Append(ctx, group("a", "b", "c"))) }
	})
	add("an id that is known", func(p *promise) func() error {
		q := queue(t, p)
		q.DuplicateWindow = time.Hour
		q = q.In(p)
		m := message("m")
		m.MessageID = core.StringID("id")
		must(errorOf(q.Append(ctx, [][]*core.Message{{m}})))
		return func() error { return errorOf(q.Append(ctx, [][]*core.Message{{m}})) }
	})
	add("a move that is known", func(p *promise) func() error {
		q := queue(t, p)
		m := message("m")
		m.Transit = &core.Transit{Key: "key"}
		must(errorOf(q.Append(ctx, [][]*core.Message{{m}})))
		return func() error { return errorOf(q.Append(ctx, [][]*core.Message{{m}})) }
	})
	add("a move that is known, to a full queue", func(p *promise) func() error {
		q := queue(t, p)
		m := message("m")
		m.Transit = &core.Transit{Key: "key"}
		must(errorOf(q.Append(ctx, [][]*core.Message{{m}})))
		q.MaxBytes = 1
		q = q.In(p)
		return func() error { return errorOf(q.Append(ctx, [][]*core.Message{{m}})) }
	})
	add("a publication", func(p *promise) func() error {
		q := queue(t, p)
		return func() error {
			return errorOf(q.Publish(ctx, 0, [][]core.Publication{{{Message: message("m")}}}))
		}
	})
	add("a commit", func(p *promise) func() error {
		q := queue(t, p)
		return func() error { _, err := q.Commit(ctx, core.Work{Messages: group("m")[0]}); return err }
	})
	for _, again := range []bool{false, true} {
		add(fmt.Sprintf("a completion, again=%t", again), func(p *promise) func() error {
			q := queue(t, p)
			send(t, p, q, "m")
			ds := lock(t, p, q, 1)
			if again {
				must(settle(p, q, core.Complete, ds...))
			}
			return func() error { return settle(p, q, core.Complete, ds...) }
		})
		add(fmt.Sprintf("a cancellation, again=%t", again), func(p *promise) func() error {
			q := queue(t, p)
			m := message("m")
			m.ScheduledEnqueueTime = time.Now().Add(time.Hour)
			a := q.Append(ctx, [][]*core.Message{{m}})
			must(errorOf(a))
			if again {
				must(q.Cancel(ctx, a[0].Numbers))
			}
			return func() error { return q.Cancel(ctx, a[0].Numbers) }
		})
		add(fmt.Sprintf("an entity, again=%t", again), func(p *promise) func() error {
			e := core.Entity{Namespace: "ns", Name: fmt.Sprint("e", p.id), ID: fmt.Sprint("e", p.id), Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
			create := func() error { _, err := p.CreateEntity(ctx, e, core.NamespaceQuotas{}); return err }
			if again {
				must(create())
			}
			return create
		})
		add(fmt.Sprintf("a deletion, again=%t", again), func(p *promise) func() error {
			q := queue(t, p)
			if again {
				must(p.DeleteEntity(ctx, "ns", q.Entity))
			}
			return func() error { return p.DeleteEntity(ctx, "ns", q.Entity) }
		})
		add(fmt.Sprintf("a namespace, again=%t", again), func(p *promise) func() error {
			create := func() error {
				_, err := p.CreateNamespace(ctx, core.Namespace{Name: fmt.Sprint("n", p.id, again), ID: p.what})
				return err
			}
			if again {
				must(create())
			}
			return create
		})
	}
	add("a state", func(p *promise) func() error {
		q := sessions(t, p)
		l := accept(t, p, q, "s")
		return func() error { return q.In(p).SetSessionState(ctx, l, []byte("state")) }
	})
	add("a purge", func(p *promise) func() error {
		q := queue(t, p)
		send(t, p, q, "m")
		return func() error { _, err := q.Purge(ctx, 9); return err }
	})
	add("a clearing", func(p *promise) func() error {
		q := queue(t, p)
		return func() error { return q.Clear(ctx) }
	})
	add("an import", func(p *promise) func() error {
		q := queue(t, p)
		return func() error {
			return p.Import(ctx, q.Ref, func(yield func(*core.Stored, error) bool) {
				yield(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: message("m"), BrokerProperties: core.BrokerProperties{SequenceNumber: 1}}}, nil)
			})
		}
	})
	return all
}

// The only replica hangs. What one server alone has is not acknowledged, neither done nor found done before.
func TestNothingIsAcknowledgedThatTheReplicaDoesNotHave(t *testing.T) {
	t.Parallel()
	redistest.EachVersion(t, func(t *testing.T, program string) {
		r := redistest.StartReplicated(t, program, 1)
		nothingWithoutTheReplica(t, r, "?replicas=1")
	})
	redistest.EachVersion(t, func(t *testing.T, program string) {
		r := redistest.StartReplicated(t, program, 1, "--appendonly", "yes", "--appendfsync", "always")
		if r.Client().Do(t.Context(), "WAITAOF", 0, 0, 0).Err() != nil {
			t.Skip("the server has no WAITAOF")
		}
		s := open(t, r.URL()+"?replicas=1&fsync=1", redisstore.Options{})
		q := queue(t, s)
		began := time.Now()
		for range 10 {
			send(t, s, q, "m")
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("ten synced messages took %v: each waits for the replica's next report", took)
		}
		nothingWithoutTheReplica(t, r, "?replicas=1&fsync=1")
	})
}

func nothingWithoutTheReplica(t *testing.T, r *redistest.Replicated, parameters string) {
	t.Helper()
	names := prefix()
	opened := func() *redisstore.Store {
		return open(t, r.URL()+parameters, redisstore.Options{Prefix: names})
	}
	for _, p := range promises(t, opened) { // the server knows the scripts then
		if err := p.call(); core.CodeOf(err) == core.Busy {
			t.Errorf("%s, with its replica: got %v", p.what, err)
		}
	}
	all := promises(t, opened)
	held := opened()
	q := queue(t, held)
	send(t, held, q, "a", "b")
	first := lock(t, held, q, 1)

	r.Freeze(t, 0)
	var calls sync.WaitGroup
	for _, p := range all {
		calls.Go(func() {
			began := time.Now()
			err := p.call()
			if took := time.Since(began); took > 2*time.Second {
				t.Logf("%s took %v", p.what, took) // Redis waits for one second; the rest is this machine
			}
			if core.CodeOf(err) != core.Busy || core.IsNotDone(err) {
				t.Errorf("%s: got %v, want busy, with an unknown outcome", p.what, err)
			}
		})
	}
	calls.Wait()
	for _, p := range all {
		a := q.In(p).Append(t.Context(), [][]*core.Message{{message("later")}})
		if core.CodeOf(a[0].Err) != core.Busy || !core.IsNotDone(a[0].Err) {
			t.Errorf("a message after %s: got %v, want busy, and not sent", p.what, a[0].Err)
		}
	}
	p := all[0]
	eventually.True(t, "health names the replica", func() bool {
		return strings.Contains(fmt.Sprint(p.Probe(t.Context())), r.ReplicaAddr(0))
	})
	if told := p.RecentFailures(); len(told) != 1 || told[0].Cause != "not-replicated" {
		t.Errorf("failures: got %+v, want not-replicated", told)
	}

	if second := lock(t, p, q, 1); len(second) != 1 || string(second[0].Body.Bytes) != "b" {
		t.Errorf("messages are locked meanwhile: got %d", len(second))
	}
	if renewed := q.In(p).Renew(t.Context(), []core.LockToken{first[0].LockToken}); renewed[0].Err != nil {
		t.Errorf("locks are renewed meanwhile: got %v", renewed[0].Err)
	}
	r.Thaw(t, 0)
	for _, p := range all {
		eventually.True(t, "the store serves again", func() bool { return p.Probe(t.Context()) == nil })
		send(t, p, q, "again")
	}
}

// A replica pauses. The call that was sent has an unknown outcome; later ones are not sent before the replica has
// returned, and none of them fails.
func TestAShortPauseOfAReplicaStaysShort(t *testing.T) {
	t.Parallel()
	redistest.EachVersion(t, func(t *testing.T, program string) {
		r := redistest.StartReplicated(t, program, 1)
		s := open(t, r.URL()+"?replicas=1", redisstore.Options{Patience: time.Minute})
		q := queue(t, s)
		r.Freeze(t, 0)
		if err := q.Append(t.Context(), [][]*core.Message{{message("m")}})[0].Err; core.CodeOf(err) != core.Busy || core.IsNotDone(err) {
			t.Errorf("a message without the replica: got %v, want busy, with an unknown outcome", err)
		}
		var ended atomic.Int32
		var calls sync.WaitGroup
		for _, call := range []func() error{
			func() error { return q.Append(t.Context(), [][]*core.Message{{message("later")}})[0].Err },
			func() error {
				_, err := s.CreateNamespace(t.Context(), core.Namespace{Name: "later", ID: "later"})
				return err
			},
		} {
			calls.Go(func() {
				if err := call(); err != nil {
					t.Errorf("a call across the pause: got %v", err)
				}
				ended.Add(1)
			})
		}
		eventually.True(t, "the cause is known", func() bool { return s.Probe(t.Context()) != nil })
		if n := ended.Load(); n > 0 {
			t.Errorf("%d calls ended without the replica", n)
		}
		r.Thaw(t, 0)
		calls.Wait()
	})
}

// What a receiver is handed over waits for its own settlement.
func TestUnreplicatedMessagesAreStillHandedOver(t *testing.T) {
	t.Parallel()
	redistest.EachVersion(t, func(t *testing.T, program string) {
		r := redistest.StartReplicated(t, program, 1)
		for _, few := range []bool{true, false} {
			s := open(t, r.URL()+"?replicas=1", redisstore.Options{})
			group := make([]*core.Message, 1)
			if !few { // they are stored in a transaction
				group = make([]*core.Message, 10)
			}
			for i := range group {
				group[i] = message("m")
			}
			freeze := func() {}
			handOver := func() (got handed, appended error) {
				q := queue(t, s)
				receiver := watch(t, s, q, 10)
				freeze()
				appended = q.Append(t.Context(), [][]*core.Message{group})[0].Err
				return await(t, receiver.handed), appended
			}
			if _, err := handOver(); err != nil { // the server knows the scripts now
				t.Fatal(err)
			}
			freeze = func() { r.Freeze(t, 0) }
			if got, err := handOver(); core.CodeOf(err) != core.Busy || core.IsNotDone(err) || len(got.ds) == 0 || got.err != nil {
				t.Errorf("append: got %v, want busy, with an unknown outcome; handed over: got %+v, want messages", err, got)
			}
			r.Thaw(t, 0)
		}
	})
}

func TestReplicasThatCannotConfirmAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	redistest.EachVersion(t, func(t *testing.T, program string) {
		r := redistest.StartReplicated(t, program, 1)
		rules := []any{"ACL", "SETUSER", "gateway", "on", ">secret", "~*", "&*", "+@all", "-wait"}
		if err := r.Client().Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		refuse := func(url, word string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := redisstore.Open(ctx, url, redisstore.Options{Prefix: prefix()})
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: got %v, want %q", url, err, word)
			}
		}
		refuse(r.URL()+"?replicas=9", "1 connected")
		refuse(strings.Replace(r.URL(), "://", "://gateway:secret@", 1)+"?replicas=1", "+wait")
		fsync := "fsync=1 requires appendonly yes"
		if r.Client().Do(t.Context(), "WAITAOF", 0, 0, 0).Err() != nil {
			fsync = "fsync=1 requires version 7.2"
		}
		refuse(r.URL()+"?replicas=1&fsync=1", fsync)
		open(t, r.URL()+"?replicas=1", redisstore.Options{})
	})
}

// A master that is promoted empty is no reason to begin a new store: another node has the data.
func TestAStoreWithReplicasWaitsForItsData(t *testing.T) {
	t.Parallel()
	redistest.EachVersion(t, func(t *testing.T, program string) {
		r := redistest.StartReplicated(t, program, 1)
		names := prefix()
		s := open(t, r.URL()+"?replicas=1", redisstore.Options{Prefix: names})
		q := queue(t, s)
		stamp := names + "{ct}s"
		if err := r.Client().Rename(t.Context(), stamp, stamp+"away").Err(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "calls are refused for the lack of data", func() bool {
			err := q.Append(t.Context(), [][]*core.Message{{message("m")}})[0].Err
			return core.CodeOf(err) == core.Busy && core.IsNotDone(err) && strings.Contains(err.Error(), "is empty")
		})
		if err := r.Client().Rename(t.Context(), stamp+"away", stamp).Err(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the store serves its data again", func() bool {
			return q.Append(t.Context(), [][]*core.Message{{message("m")}})[0].Err == nil
		})
		select {
		case <-s.Lost():
			t.Error("the store is lost, although its data came back")
		default:
		}
	})
}
