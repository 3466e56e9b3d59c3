package redis_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// isReceipt reports whether a key is that of a receipt, which Redis removes after ten seconds.
var isReceipt = regexp.MustCompile(`A[0-9a-f]+:[0-9]+$`).MatchString

// keysOf lists the keys of an entity, without what they have in common, except receipts.
func keysOf(t *testing.T, rdb *redis.Client, prefix, entity string) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), prefix+"{"+entity+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	keys = slices.DeleteFunc(keys, isReceipt)
	for i, key := range keys {
		keys[i] = strings.TrimPrefix(key, prefix+"{"+entity+":0}")
	}
	slices.Sort(keys)
	return keys
}

// Whatever befell the messages, nothing is kept about them once they are gone.
func TestADrainedQueueKeepsNothing(t *testing.T) {
	t.Parallel()
	for _, expired := range []bool{false, true} {
		t.Run(fmt.Sprintf("expired are dead-lettered %v", expired), func(t *testing.T) {
			t.Parallel()
			clock, names := storetest.NewClock(), prefix()
			s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
			p := queue(t, s)
			p.LockDuration, p.MaxDeliveryCount, p.DeadLetterExpired = 10*time.Second, 4, expired
			dead := p
			dead.Sub = core.DeadLetter
			var deferred []int64
			for range 300 {
				befall(t, s, clock, p, &deferred)
				if rand.IntN(4) == 0 {
					befall(t, s, clock, dead, &deferred)
				}
			}
			clock.Advance(2 * time.Hour) // all locks end, all schedules are due
			for _, q := range []core.Partition{p, dead} {
				drainAll(t, s, q)
			}
			if got, want := keysOf(t, server(t).Client(), names, p.Entity), []string{"$h", "$m", ">$m", ">m", "h", "m"}; !slices.Equal(got, want) {
				t.Errorf("keys: got %v, want %v", got, want)
			}
		})
	}
}

// befall does one thing of many to a queue.
func befall(t *testing.T, s core.Store, clock *storetest.Clock, p core.Partition, deferred *[]int64) {
	t.Helper()
	if p.Sub == core.Main {
		var group []*core.Message
		for range rand.IntN(4) {
			m := message("x")
			if rand.IntN(2) == 0 {
				m.TimeToLive = time.Duration(1+rand.IntN(60)) * time.Second
			}
			if rand.IntN(3) == 0 {
				m.ScheduledEnqueueTime = clock.Now().Add(time.Duration(rand.IntN(60)) * time.Second)
			}
			group = append(group, m)
		}
		a := p.In(s).Append(t.Context(), [][]*core.Message{group})
		if a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		if len(a[0].Numbers) > 0 && rand.IntN(5) == 0 {
			_ = p.In(s).Cancel(t.Context(), a[0].Numbers[:1]) // it may not be scheduled
		}
	}
	ds := lock(t, s, p, rand.IntN(5))
	if len(*deferred) > 0 && rand.IntN(3) == 0 {
		n := (*deferred)[rand.IntN(len(*deferred))]
		more, _, _ := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: []int64{n}, Deferred: true}) // it may have gone
		ds = append(ds, more...)
	}
	clock.Advance(time.Duration(rand.IntN(4000)) * time.Millisecond)
	for _, d := range ds {
		o := core.Outcome(rand.IntN(int(core.Release) + 2))
		if o > core.Release {
			continue // its lock ends by itself
		}
		over, err := core.NewProperties(core.Property{Key: "k", Value: rand.Int64()})
		if err != nil {
			t.Fatal(err)
		}
		_ = p.In(s).Settle(t.Context(), []core.Settlement{{Token: d.LockToken, Outcome: o, Properties: over}}) // the lock may have ended
		if o == core.Defer {
			*deferred = append(*deferred, d.SequenceNumber)
		}
	}
}

// drainAll completes all that a queue holds.
func drainAll(t *testing.T, s core.Store, p core.Partition) {
	t.Helper()
	for {
		ds := lock(t, s, p, 100)
		if len(ds) == 0 {
			break
		}
		if err := settle(s, p, core.Complete, ds...); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := p.In(s).Peek(t.Context(), core.PeekRequest{Max: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		if d.State != core.Deferred {
			t.Fatalf("a message is left in state %v", d.State)
		}
		one, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: []int64{d.SequenceNumber}, Deferred: true})
		if core.CodeOf(err) == core.MessageNotFound {
			continue // it has expired
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := settle(s, p, core.Complete, one...); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever still uses an entity while it is deleted brings none of its keys back.
func TestADeletedEntityLeavesNoKeys(t *testing.T) {
	t.Parallel()
	names := prefix()
	o := redisstore.Options{Prefix: names}
	stores := []core.Store{open(t, server(t).URL(), o), open(t, server(t).URL(), o)}
	for range 10 {
		p := queue(t, stores[0])
		p.LockDuration, p.MaxDeliveryCount = 20*time.Millisecond, 2
		timed, dead := p, p
		timed.DuplicateWindow = time.Minute
		dead.Sub = core.DeadLetter
		stop := make(chan struct{})
		var users sync.WaitGroup
		var used atomic.Int64
		busy := func(n int64) {
			until := used.Load() + n
			eventually.True(t, fmt.Sprintf("%d operations are done", n), func() bool { return used.Load() >= until })
		}
		for i := range 8 {
			s := stores[i%2]
			users.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						use(t, s, []core.Partition{p, timed, dead}[rand.IntN(3)])
						used.Add(1)
					}
				}
			})
		}
		busy(200)
		if err := stores[1].DeleteEntity(t.Context(), "ns", p.Entity); err != nil {
			t.Error(err)
		}
		busy(100)
		close(stop)
		users.Wait()
		if a := p.In(stores[0]).Append(t.Context(), [][]*core.Message{{message("late")}}); core.CodeOf(a[0].Err) != core.NotFound {
			t.Errorf("append to a deleted entity: got %v", a[0].Err)
		}
		if left := keysOf(t, server(t).Client(), names, p.Entity); len(left) > 0 {
			t.Errorf("keys of a deleted entity: %v", left)
		}
	}
}

// use does one thing of many to an entity that may be gone.
func use(t *testing.T, s core.Store, p core.Partition) {
	ctx := t.Context()
	switch rand.IntN(8) {
	case 0:
		_, _ = p.In(s).Sweep(ctx)
	case 1:
		_, _ = storetest.Stats(ctx, s, p)
	case 2:
		_, _ = p.In(s).Peek(ctx, core.PeekRequest{Max: 5})
	case 3, 4:
		ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 5}})
		if err != nil {
			t.Errorf("lock: %v", err)
		}
		for _, d := range ds {
			o := core.Outcome(rand.IntN(int(core.Release) + 1))
			_ = p.In(s).Settle(ctx, []core.Settlement{{Token: d.LockToken, Outcome: o}})
			if o == core.Defer {
				_, _, _ = p.In(s).Lock(ctx, core.LockRequest{Numbers: []int64{d.SequenceNumber}, Deferred: true})
			}
			_ = p.In(s).Renew(ctx, []core.LockToken{d.LockToken})
		}
	default:
		m := message("x")
		m.MessageID = core.StringID(fmt.Sprint(rand.Int()))
		if rand.IntN(3) == 0 {
			m.ScheduledEnqueueTime = s.Now().Add(time.Duration(rand.IntN(50)) * time.Millisecond)
		}
		if rand.IntN(3) == 0 {
			m.TimeToLive = time.Duration(1+rand.IntN(50)) * time.Millisecond
		}
		p.Sub = core.Main
		if a := p.In(s).Append(ctx, [][]*core.Message{{m}}); a[0].Err != nil && core.CodeOf(a[0].Err) != core.NotFound {
			t.Errorf("append: %v", a[0].Err)
		}
	}
}
