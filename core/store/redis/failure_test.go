package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

var entities atomic.Int64

// queue makes an entity of one partition of the test's own.
func queue(tb testing.TB, s core.Store) core.Partition {
	tb.Helper()
	name := fmt.Sprintf("e%d", entities.Add(1))
	e, err := s.CreateEntity(tb.Context(), core.Entity{
		Namespace: "ns", Name: name, ID: name, Partitions: 1, Settings: core.DefaultSettings(core.Queue),
	}, core.NamespaceQuotas{})
	if err != nil {
		tb.Fatalf("create entity: %v", err)
	}
	return e.Partition(0, core.Main).In(s)
}

func message(body string) *core.Message { return &core.Message{Body: core.Body{Bytes: []byte(body)}} }

func send(tb testing.TB, s core.Store, p core.Partition, bodies ...string) []int64 {
	tb.Helper()
	var group []*core.Message
	for _, body := range bodies {
		group = append(group, message(body))
	}
	a := p.In(s).Append(tb.Context(), [][]*core.Message{group})
	if a[0].Err != nil {
		tb.Fatalf("append: %v", a[0].Err)
	}
	return a[0].Numbers
}

// callsOf returns how often the server has run a command.
func callsOf(tb testing.TB, server *redistest.Server, command string) int64 {
	tb.Helper()
	info, err := server.Client().Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	calls, _, _ := strings.Cut(after, ",")
	n, _ := strconv.ParseInt(calls, 10, 64) // 0 if it has run none
	return n
}

func lock(tb testing.TB, s core.Store, p core.Partition, limit int) []core.Delivery {
	tb.Helper()
	ds, _, err := p.In(s).Lock(tb.Context(), core.LockRequest{Most: core.Most{Messages: limit}})
	if err != nil {
		tb.Fatalf("lock: %v", err)
	}
	return ds
}

func settle(s core.Store, p core.Partition, o core.Outcome, ds ...core.Delivery) error {
	settlements := make([]core.Settlement, len(ds))
	for i, d := range ds {
		settlements[i] = core.Settlement{Token: d.LockToken, Outcome: o}
	}
	return errors.Join(p.In(s).Settle(context.Background(), settlements)...)
}

func TestScriptsAreLoadedAgainWhenTheServerForgetsThem(t *testing.T) {
	t.Parallel()
	// A server of its own: flushing is for all.
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{Patience: -1})
	p := queue(t, s)
	flush := func() {
		t.Helper()
		if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatalf("script flush: %v", err)
		}
	}
	for i := range 5 {
		flush()
		send(t, s, p, "a", "b")
		flush()
		ds := lock(t, s, p, 2)
		if len(ds) != 2 || string(ds[1].Body.Bytes) != "b" {
			t.Fatalf("round %d: lock: got %d messages", i, len(ds))
		}
		flush()
		if r := p.In(s).Renew(t.Context(), []core.LockToken{ds[0].LockToken}); r[0].Err != nil {
			t.Fatalf("round %d: renew: %v", i, r[0].Err)
		}
		flush()
		if err := settle(s, p, core.Complete, ds...); err != nil {
			t.Fatalf("round %d: settle: %v", i, err)
		}
	}
	numbers := send(t, s, p, "last")
	if _, n := core.SplitSequenceNumber(numbers[0]); n != 11 {
		t.Errorf("number after ten messages: got %d, want 11", n)
	}
}

func TestAnUnreachableServerIsBusyUntilItIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := open(t, server.URL(), redisstore.Options{Patience: -1})
	p := queue(t, s)
	send(t, s, p, "before")
	held := lock(t, s, p, 1)[0]
	server.Kill()

	busy := func(what string, err error) {
		t.Helper()
		if core.CodeOf(err) != core.Busy || !strings.Contains(core.TextOf(err), "Try again") {
			t.Errorf("%s without a server: got %v (text %q), want busy with a remedy", what, err, core.TextOf(err))
		}
	}
	ctx := t.Context()
	busy("append", p.In(s).Append(ctx, [][]*core.Message{{message("x")}})[0].Err)
	err := p.In(s).Append(ctx, [][]*core.Message{{message("x")}})[0].Err // over a new connection
	if busy("append again", err); !core.IsNotDone(err) {
		t.Errorf("append to a server that is away: got %v, want that it is certain to have no effect", err)
	}
	_, _, err = p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 1}})
	busy("lock", err)
	busy("settle", settle(s, p, core.Complete, held))
	busy("renew", p.In(s).Renew(ctx, []core.LockToken{held.LockToken})[0].Err)
	_, err = p.In(s).Peek(ctx, core.PeekRequest{Max: 1})
	busy("peek", err)
	_, err = storetest.Stats(ctx, s, p)
	busy("stats", err)
	_, err = s.Entity(ctx, "ns", "e")
	busy("entity", err)
	busy("probe", s.Probe(ctx))
	if a := s.About(ctx); a.Durable || len(a.Warnings) == 0 {
		t.Errorf("about without a server: got %+v, want not durable and a warning", a)
	}

	server.Restart(t)
	// After as many failed dials as it may have connections, the client dials once a second.
	eventually.True(t, "the store reaches the server again", func() bool { return s.Probe(ctx) == nil })
	if err := settle(s, p, core.Complete, held); err != nil {
		t.Errorf("settle a lock from before the restart: %v", err)
	}
	if n := send(t, s, p, "after")[0]; n != 2 {
		t.Errorf("number after the restart: got %d, want 2", n)
	}
	if stats, err := storetest.Stats(ctx, s, p); err != nil || stats.Enqueued != 2 {
		t.Errorf("enqueued after the restart: got %d, %v, want 2", stats.Enqueued, err)
	}
	if ds := lock(t, s, p, 9); len(ds) != 1 || string(ds[0].Body.Bytes) != "after" {
		t.Errorf("after the restart: got %d messages, want the one sent then", len(ds))
	}
}

// ledger notes what became of messages. One that was delivered need not show
// as completed: the answer may have been lost with the server.
type ledger struct {
	mu        sync.Mutex
	acked     map[string]bool
	delivered map[string]bool
	completed map[string]int
}

func TestNothingAcknowledgedIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := open(t, server.URL(), redisstore.Options{Patience: -1})
	p := queue(t, s)
	p.LockDuration = 300 * time.Millisecond // locks whose answer was lost come back soon
	p.MaxDeliveryCount = 1000
	books := ledger{acked: make(map[string]bool), delivered: make(map[string]bool), completed: make(map[string]int)}

	running, stop := context.WithCancel(t.Context())
	var senders, receivers sync.WaitGroup
	for w := range 4 {
		senders.Go(func() { books.send(running, s, p, w) })
	}
	finished, finish := context.WithCancel(t.Context())
	for range 2 {
		receivers.Go(func() { books.receive(finished, s, p) })
	}
	for kill := range 4 {
		books.awaitAcked(t, 50*(kill+1))                            // under load: this is about a real process
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond) // random moments are what this is about
		server.Kill()
		server.Restart(t)
	}
	stop()
	senders.Wait()
	books.await(t)
	finish()
	receivers.Wait()
	books.check(t)

	head, err := server.Client().Keys(t.Context(), "*{"+p.Entity+":0}h").Result()
	if err != nil || len(head) != 1 {
		t.Fatalf("keys: %v, %v", head, err)
	}
	// In one step: an append whose sender has given up may still be on its way.
	pipe := server.Client().TxPipeline()
	counter := pipe.HGet(t.Context(), head[0], "s")
	info := pipe.XInfoStream(t.Context(), strings.TrimSuffix(head[0], "h")+"m")
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info.Val().LastGeneratedID != "0-"+counter.Val() {
		t.Errorf("the counter stands at %s, the stream at %s", counter.Val(), info.Val().LastGeneratedID)
	}
}

// awaitAcked waits until so many messages are acknowledged.
func (l *ledger) awaitAcked(t *testing.T, n int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d messages are acknowledged", n), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked) >= n
	})
}

func (l *ledger) send(ctx context.Context, s core.Store, p core.Partition, worker int) {
	for i := 0; ctx.Err() == nil; i++ {
		body := fmt.Sprintf("%d-%d", worker, i)
		if a := p.In(s).Append(ctx, [][]*core.Message{{message(body)}}); a[0].Err == nil {
			l.mu.Lock()
			l.acked[body] = true
			l.mu.Unlock()
		} else {
			time.Sleep(5 * time.Millisecond) // a client's pause before it tries again
		}
	}
}

func (l *ledger) receive(ctx context.Context, s core.Store, p core.Partition) {
	for ctx.Err() == nil {
		ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 50}})
		if err != nil || len(ds) == 0 {
			time.Sleep(5 * time.Millisecond) // a client's pause before it tries again
			continue
		}
		l.mu.Lock()
		for _, d := range ds {
			l.delivered[string(d.Body.Bytes)] = true
		}
		l.mu.Unlock()
		errs := p.In(s).Settle(ctx, settlementsOf(ds))
		l.mu.Lock()
		for i, err := range errs {
			if err == nil {
				l.completed[string(ds[i].Body.Bytes)]++
			}
		}
		l.mu.Unlock()
	}
}

func settlementsOf(ds []core.Delivery) []core.Settlement {
	settlements := make([]core.Settlement, len(ds))
	for i, d := range ds {
		settlements[i] = core.Settlement{Token: d.LockToken, Outcome: core.Complete}
	}
	return settlements
}

// await waits until all that was acknowledged has been delivered.
func (l *ledger) await(t *testing.T) {
	t.Helper()
	eventually.Within(eventually.Bound, func() bool { return len(l.missing()) == 0 }) // check says what is missing
}

// missing lists what was acknowledged but never delivered.
func (l *ledger) missing() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var missing []string
	for body := range l.acked {
		if !l.delivered[body] {
			missing = append(missing, body)
		}
	}
	return missing
}

func (l *ledger) check(t *testing.T) {
	t.Helper()
	if missing := l.missing(); len(missing) > 0 {
		t.Errorf("%d of %d acknowledged messages are lost, for example %s", len(missing), len(l.acked), missing[0])
	}
	for body, n := range l.completed {
		if n > 1 {
			t.Errorf("message %s was completed %d times", body, n)
		}
	}
}

func TestACallerThatStopsWaitingGetsATimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := open(t, server.URL(), redisstore.Options{Patience: -1})
	p := queue(t, s)
	send(t, s, p, "first")
	token := lock(t, s, p, 1)[0].LockToken
	if err := server.Client().Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	briefly := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	a := p.In(s).Append(briefly(), [][]*core.Message{{message("slow")}})
	if core.CodeOf(a[0].Err) != core.Timeout || !errors.Is(a[0].Err, context.DeadlineExceeded) || core.IsNotDone(a[0].Err) {
		t.Errorf("append: got %v, want a timeout that leaves the outcome open", a[0].Err)
	}
	_, err := p.In(s).Peek(briefly(), core.PeekRequest{Max: 1})
	if core.CodeOf(err) != core.Timeout {
		t.Errorf("peek: got %v, want a timeout", err)
	}
	if r := p.In(s).Renew(briefly(), []core.LockToken{token}); core.CodeOf(r[0].Err) != core.Timeout {
		t.Errorf("renew: got %v, want a timeout", r[0].Err)
	}
	if errs := p.In(s).Settle(briefly(), []core.Settlement{{Token: token, Outcome: core.Complete}}); core.CodeOf(errs[0]) != core.Timeout {
		t.Errorf("settle: got %v, want a timeout", errs[0])
	}
	if err := server.Client().Do(t.Context(), "CLIENT", "UNPAUSE").Err(); err != nil {
		t.Fatal(err)
	}
	// The flush goes on without its caller.
	if n := send(t, s, p, "next")[0]; n != 3 {
		t.Errorf("number of the next message: got %d, want 3: the slow one was stored", n)
	}
}

func TestAClosedStoreTurnsCallsAway(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	p := queue(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if a := p.In(s).Append(t.Context(), [][]*core.Message{{message("x")}}); core.CodeOf(a[0].Err) != core.Busy {
		t.Errorf("append: got %v, want busy", a[0].Err)
	}
	if _, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}}); core.CodeOf(err) != core.Busy {
		t.Errorf("lock: got %v, want busy", err)
	}
	if err := s.Probe(t.Context()); core.CodeOf(err) != core.Busy {
		t.Errorf("probe: got %v, want busy", err)
	}
}

func TestOpenExplainsWhatIsWrong(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := redisstore.Open(ctx, "redis://me:secret@127.0.0.1:1", redisstore.Options{}); err == nil ||
		strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody listens: got %v", err)
	}
	if _, err := redisstore.Open(ctx, server(t).URL(), redisstore.Options{Prefix: "a{b"}); err == nil || !strings.Contains(err.Error(), "brace") {
		t.Errorf("prefix with a brace: got %v", err)
	}
}

// A gateway that others hold for ended may still repeat a move that they have completed.
func TestALateMoveMakesNoSecondCopy(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now}.WithLingering(time.Minute))
	p := queue(t, s)
	move := func() int64 {
		t.Helper()
		m := message("moved")
		m.Transit = &core.Transit{Key: "source/1"}
		a := p.In(s).Append(t.Context(), [][]*core.Message{{m}})[0]
		if a.Err != nil {
			t.Fatalf("append: %v", a.Err)
		}
		return a.Numbers[0]
	}
	first := move()
	for range 2 {
		if err := p.In(s).Forget(t.Context(), []string{"source/1"}); err != nil {
			t.Fatalf("forget: %v", err)
		}
		clock.Advance(time.Minute - time.Millisecond)
		if n := move(); first == 0 || n != 0 {
			t.Errorf("got the numbers %d and, within a minute, %d, want none for the repetition", first, n)
		}
		clock.Advance(time.Millisecond)
		first = move()
	}
}
