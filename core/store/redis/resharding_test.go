package redis_test

import (
	"context"
	"fmt"
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

// While a slot moves, its partition may be busy, but nothing else. Calls wait for the slot no longer than once, however
// well others are served. With replicas calls take a way of their own; a topic's take the other one.
func TestASlotThatMovesLosesNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	names := prefix()
	s := open(t, cluster.URL()+"&replicas=1", redisstore.Options{Prefix: names})
	p := queue(t, s)
	p.MaxDeliveryCount = 1000
	p.LockDuration = 2 * time.Second
	timed := p // the same partition through the script path
	timed.DuplicateWindow = time.Minute
	tag := names + "{" + p.Entity + ":0}"

	books := moveBooks{acked: make(map[int64]string), completed: make(map[string]int)}
	running, stop := context.WithCancel(t.Context())
	var senders, receivers sync.WaitGroup
	for w := range 2 {
		senders.Go(func() { books.send(running, t, s, p, w) })
		senders.Go(func() { books.send(running, t, s, timed, 10+w) })
	}
	finished, finish := context.WithCancel(t.Context())
	for range 2 {
		receivers.Go(func() { books.receive(finished, t, s, p) })
	}
	books.await(t, "messages before the move", 100)
	move := cluster.BeginMove(t, tag)
	for from, _ := move.Keys(t); len(from) > 0; from, _ = move.Keys(t) {
		move.MoveKey(t, from[0])
		books.awaitAnswers(t, 20)
	}
	_, to := move.Keys(t)
	for _, key := range to {
		if !strings.HasPrefix(key, tag) {
			t.Errorf("key %q came up", key)
		}
	}
	move.Finish(t)
	moved := books.count()
	books.await(t, "messages after the move", moved+200)
	stop()
	senders.Wait()
	eventually.Within(eventually.Bound, func() bool { return books.left() == 0 })
	finish()
	receivers.Wait()
	if n := books.left(); n > 0 {
		t.Errorf("%d of %d acknowledged messages were not completed", n, books.count())
	}
	for body, n := range books.completed {
		if n > 1 {
			t.Errorf("message %s was completed %d times", body, n)
		}
	}
	t.Logf("%d acknowledged, %d of them before the end of the move; %d busy answers", books.count(), moved, books.busy)

	stats, err := storetest.Stats(t.Context(), s, p)
	if stats.Bytes = 0; err != nil || stats != (core.Stats{Enqueued: int64(len(books.acked))}) {
		t.Errorf("in the end: got %+v, %v, want nothing", stats, err)
	}
	if from, _ := move.Keys(t); len(from) > 0 {
		t.Errorf("keys where the slot came from: %v", from)
	}
	// One log, one count.
	if given := move.At(t, "HGET", tag+"h", "s"); given != fmt.Sprint(len(books.acked)) {
		t.Errorf("numbers given: got %s, want one for each of %d messages", given, len(books.acked))
	}
}

// The server ends subscriptions to the doorbells of a slot that leaves it, even
// if the slot returns before anybody has noticed.
func TestDoorbellsAreHeardAfterASlotHasLeftAndReturned(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	names := prefix()
	s := open(t, cluster.URL(), redisstore.Options{Prefix: names})
	p := queue(t, s)
	tag := names + "{" + p.Entity + ":0}"
	rung := make(chan struct{}, 1)
	defer p.In(s).Watch(core.WakeFunc(func(core.SessionKey) {
		select {
		case rung <- struct{}{}:
		default:
		}
	}))()
	<-rung // it has begun to listen
	away := cluster.BeginMove(t, tag)
	away.MoveAll(t)
	back := away.BeginReturn(t)
	back.MoveAll(t)
	eventually.True(t, "one listens where the slot is", func() bool {
		return back.At(t, "PUBSUB", "SHARDNUMSUB", tag+"w") == "["+tag+"w 1]"
	})
}

// moveBooks note what was acknowledged and completed.
type moveBooks struct {
	mu        sync.Mutex
	acked     map[int64]string
	completed map[string]int
	busy      int
}

func (b *moveBooks) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acked)
}

// await waits until so many messages are acknowledged.
func (b *moveBooks) await(t *testing.T, what string, n int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%s: %d are acknowledged", what, n), func() bool { return b.count() >= n })
}

// awaitAnswers waits for so many further answers, of whatever kind.
func (b *moveBooks) awaitAnswers(t *testing.T, n int) {
	t.Helper()
	answers := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.acked) + len(b.completed) + b.busy
	}
	until := answers() + n
	eventually.True(t, fmt.Sprintf("%d calls are answered amid the move", n), func() bool { return answers() >= until })
}

func (b *moveBooks) left() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.acked {
		if b.completed[body] == 0 {
			n++
		}
	}
	return n
}

// refused notes a refusal, which must be Busy.
func (b *moveBooks) refused(t *testing.T, what string, err error) {
	if core.CodeOf(err) != core.Busy {
		t.Errorf("%s: got %v, want busy or success", what, err)
	}
	b.mu.Lock()
	b.busy++
	b.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // a client's pause before it tries again
}

func (b *moveBooks) send(ctx context.Context, t *testing.T, s core.Store, p core.Partition, worker int) {
	for i := 0; ctx.Err() == nil; i++ {
		m := message(fmt.Sprintf("%d-%d", worker, i))
		m.MessageID = core.StringID(string(m.Body.Bytes))
		a := p.In(s).Append(context.WithoutCancel(ctx), [][]*core.Message{{m}})
		if a[0].Err != nil {
			b.refused(t, "append", a[0].Err)
			continue
		}
		b.mu.Lock()
		if known := b.acked[a[0].Numbers[0]]; known != "" {
			t.Errorf("number %d was given to %s and to %s", a[0].Numbers[0], known, m.Body.Bytes)
		}
		b.acked[a[0].Numbers[0]] = string(m.Body.Bytes)
		b.mu.Unlock()
	}
}

func (b *moveBooks) receive(ctx context.Context, t *testing.T, s core.Store, p core.Partition) {
	for ctx.Err() == nil {
		ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 20}})
		if err != nil {
			if ctx.Err() == nil {
				b.refused(t, "lock", err)
			}
			continue
		}
		for i, err := range p.In(s).Settle(context.WithoutCancel(ctx), settlementsOf(ds)) {
			switch core.CodeOf(err) {
			case "":
				b.mu.Lock()
				b.completed[string(ds[i].Body.Bytes)]++
				b.mu.Unlock()
			case core.LockLost: // it stayed busy for longer than the lock
			default:
				b.refused(t, "settle", err)
			}
		}
	}
}

// A publication is never half there, and a session never in two hands, while
// their slot moves.
func TestATopicThatMovesLosesNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	names := prefix()
	s := open(t, cluster.URL(), redisstore.Options{Prefix: names})
	st := newStand(t, s, "plain")
	plain, orders := st.at("plain"), st.subscribe(s, "orders", true)
	plain.MaxDeliveryCount, plain.LockDuration = 1000, 2*time.Second
	orders.MaxDeliveryCount, orders.LockDuration = 1000, 2*time.Second
	version := st.version(s)

	var inPlain, inOrders moveBooks
	for _, b := range []*moveBooks{&inPlain, &inOrders} {
		b.acked, b.completed = make(map[int64]string), make(map[string]int)
	}
	sending, stop := context.WithCancel(t.Context())
	receiving, finish := context.WithCancel(t.Context())
	var senders, receivers sync.WaitGroup
	for w := range 2 {
		senders.Go(func() {
			for i := 0; sending.Err() == nil; i++ {
				m := message(fmt.Sprint(w, "-", i, " ", large))
				m.SessionID = fmt.Sprint(i % 5)
				a := st.own.In(s).Publish(context.WithoutCancel(sending), version, [][]core.Publication{{to(m, plain, orders)}})
				if a[0].Err != nil {
					inPlain.refused(t, "publish", a[0].Err)
					continue
				}
				for _, b := range []*moveBooks{&inPlain, &inOrders} {
					b.mu.Lock()
					b.acked[a[0].Numbers[0]] = string(m.Body.Bytes)
					b.mu.Unlock()
				}
			}
		})
		receivers.Go(func() { inPlain.receive(receiving, t, s, plain) })
		receivers.Go(func() { inOrders.receiveInSessions(receiving, t, s, orders) })
	}
	inPlain.await(t, "publications before the move", 30)
	move := cluster.BeginMove(t, names+"{"+st.topic.ID+":0}")
	for from, _ := move.Keys(t); len(from) > 0; from, _ = move.Keys(t) {
		move.MoveKey(t, from[0])
		inPlain.awaitAnswers(t, 10)
	}
	move.Finish(t)
	moved := inPlain.count()
	inPlain.await(t, "publications after the move", moved+50)
	stop()
	senders.Wait()
	eventually.Within(eventually.Bound, func() bool { return inPlain.left()+inOrders.left() == 0 })
	finish()
	receivers.Wait()
	for name, b := range map[string]*moveBooks{"plain": &inPlain, "orders": &inOrders} {
		if n := b.left(); n > 0 {
			t.Errorf("%s: %d of %d publications were not completed", name, n, b.count())
		}
		if len(b.completed) != b.count() {
			t.Errorf("%s: %d completed, %d acknowledged: some were stored in part", name, len(b.completed), b.count())
		}
		for body, n := range b.completed {
			if n > 1 {
				t.Errorf("%s: %.10s was completed %d times", name, body, n)
			}
		}
	}
	t.Logf("%d acknowledged, %d of them before the end of the move; %d busy answers", inPlain.count(), moved, inPlain.busy+inOrders.busy)
	if bodies := move.At(t, "HLEN", names+"{"+st.topic.ID+":0}B"); bodies != "0" {
		t.Errorf("bodies that are left: got %s, want 0", bodies)
	}
}

// receiveInSessions completes messages of one session after the other.
func (b *moveBooks) receiveInSessions(ctx context.Context, t *testing.T, s core.Store, p core.Partition) {
	for ctx.Err() == nil {
		l, ok, _, err := p.In(s).AcceptSession(ctx, core.SessionRequest{Next: true})
		if err != nil && ctx.Err() == nil {
			b.refused(t, "accept", err)
		}
		if err != nil || !ok {
			time.Sleep(5 * time.Millisecond) // no session is free
			continue
		}
		ds, _, err := p.In(s).Lock(context.WithoutCancel(ctx), core.LockRequest{Most: core.Most{Messages: 20}, Session: &l})
		if err != nil && core.CodeOf(err) != core.SessionLockLost { // it stayed busy for longer than the lock
			b.refused(t, "lock in session", err)
		}
		for i, err := range p.In(s).Settle(context.WithoutCancel(ctx), settlementsOf(ds)) {
			switch core.CodeOf(err) {
			case "":
				b.mu.Lock()
				b.completed[string(ds[i].Body.Bytes)]++
				b.mu.Unlock()
			case core.SessionLockLost:
			default:
				b.refused(t, "settle", err)
			}
		}
		if err := p.In(s).ReleaseSession(context.WithoutCancel(ctx), l); err != nil && core.CodeOf(err) != core.SessionLockLost {
			b.refused(t, "release", err)
		}
	}
}
