package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// checkLocks checks the partitions below a prefix: each message without a session is in exactly one state, and a
// block of locks is in both keys, with at least one bit.
func checkLocks(ctx context.Context, rdb *redis.Client, prefix string) error {
	keys, err := rdb.Keys(ctx, prefix+"{*}*m").Result()
	for _, stream := range keys {
		err = errors.Join(err, checkPartition(ctx, rdb, strings.TrimSuffix(stream, "m")))
	}
	return err
}

func checkPartition(ctx context.Context, rdb *redis.Client, prefix string) error {
	pipe := rdb.Pipeline()
	entries := pipe.XRange(ctx, prefix+"m", "-", "+")
	head, runs, sessions := pipe.HGetAll(ctx, prefix+"h"), pipe.HGetAll(ctx, prefix+"L"), pipe.HGetAll(ctx, prefix+"n")
	sets := map[string]*redis.ZSliceCmd{}
	for _, suffix := range []string{"l", "r", "f", "q", "g"} {
		sets[suffix] = pipe.ZRangeWithScores(ctx, prefix+suffix, 0, -1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	states := map[int64][]string{}
	var found error
	blocks := 0
	for _, z := range sets["l"].Val() {
		member := z.Member.(string)
		n, _ := strconv.ParseInt(member[:15], 10, 64)
		if len(member) < 24 {
			states[n] = append(states[n], "single")
			continue
		}
		blocks++
		bits := runs.Val()[member]
		if len(bits) != 16 || strings.Trim(bits, "\x00") == "" {
			found = errors.Join(found, fmt.Errorf("%s: block %q has bits %x", prefix, member, bits))
		}
		for i := range int64(8 * len(bits)) {
			if bits[i/8]>>(i%8)&1 == 1 {
				states[n+i] = append(states[n+i], "block")
			}
		}
	}
	if blocks != len(runs.Val()) {
		found = errors.Join(found, fmt.Errorf("%s: %d blocks in locks, %d in runs", prefix, blocks, len(runs.Val())))
	}
	for suffix, state := range map[string]string{"r": "available", "f": "deferred", "q": "scheduled"} {
		for _, z := range sets[suffix].Val() {
			if member := z.Member.(string); suffix != "f" || z.Score == 0 { // else it is locked
				n, _ := strconv.ParseInt(strings.TrimSuffix(member, "r"), 10, 64)
				states[n] = append(states[n], state)
			}
		}
	}
	holes := map[string]bool{}
	for _, z := range sets["g"].Val() {
		holes[z.Member.(string)] = true
	}
	cursor, _ := strconv.ParseInt(head.Val()["c"], 10, 64)
	for _, e := range entries.Val() {
		text := strings.TrimPrefix(e.ID, "0-")
		n, _ := strconv.ParseInt(text, 10, 64)
		if _, ok := sessions.Val()[text]; ok {
			delete(states, n)
			continue
		}
		if n > cursor && !holes[text] {
			states[n] = append(states[n], "new")
		}
		if len(states[n]) != 1 {
			found = errors.Join(found, fmt.Errorf("%s: message %d is %v", prefix, n, states[n]))
		}
		delete(states, n)
	}
	for n, state := range states {
		if state[0] == "block" || state[0] == "single" {
			found = errors.Join(found, fmt.Errorf("%s: message %d is %v, but is not stored", prefix, n, state))
		}
	}
	return found
}

// lockMany stores messages and locks all of them with one call.
func lockMany(t *testing.T, s core.Store, p core.Partition, n int) []core.Delivery {
	t.Helper()
	for range n / 100 {
		send(t, s, p, make([]string, 100)...)
	}
	ds := lock(t, s, p, n)
	if len(ds) != n {
		t.Fatalf("got %d of %d messages", len(ds), n)
	}
	return ds
}

func wantLocked(t *testing.T, s core.Store, p core.Partition, want int) {
	t.Helper()
	counted := s.StatsOf(t.Context(), []core.Partition{p})[0]
	if counted.Err != nil || counted.Stats.Locked != int64(want) {
		t.Fatalf("got %d locked messages (%v), want %d", counted.Stats.Locked, counted.Err, want)
	}
}

// blocksOf returns the keys that hold blocks of locks.
func blocksOf(t *testing.T, rdb *redis.Client, prefix string) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), prefix+"{*}*L").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// The locks of a block end one by one: completed, released, renewed, and by time, where a sweep ends in its middle.
func TestBlocksOfLocksEndInParts(t *testing.T) {
	t.Parallel()
	clock, r := storetest.NewClock(), redistest.Start(t, redistest.Options{})
	s := open(t, r.URL(), redisstore.Options{Clock: clock.Now, Prefix: "p"})
	p := queue(t, s)
	p.LockDuration = time.Minute
	check := func() {
		t.Helper()
		if err := checkLocks(t.Context(), r.Client(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	const n = 1000
	ds := lockMany(t, s, p, n)
	if len(blocksOf(t, r.Client(), "p")) == 0 {
		t.Fatal("no block was written")
	}
	wantLocked(t, s, p, n)
	completed, renewed := map[int64]bool{}, map[int64]bool{}
	var done []core.Delivery
	var tokens []core.LockToken
	for i, d := range ds {
		switch {
		case i%3 == 0:
			done, completed[d.SequenceNumber] = append(done, d), true
		case i%5 == 0:
			tokens, renewed[d.SequenceNumber] = append(tokens, d.LockToken), true
		}
	}
	rand.Shuffle(len(done), func(i, j int) { done[i], done[j] = done[j], done[i] })
	for i, step := 0, 1; i < len(done); i, step = i+step, step*2 {
		if err := settle(s, p, core.Complete, done[i:min(i+step, len(done))]...); err != nil {
			t.Fatal(err)
		}
		if err := r.Client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		check()
	}
	wantLocked(t, s, p, n-len(completed))
	if err := settle(s, p, core.Complete, ds[0], ds[1]); core.CodeOf(err) != core.LockLost {
		t.Errorf("a completed message, completed again: got %v", err)
	}
	completed[ds[1].SequenceNumber] = true
	clock.Advance(30 * time.Second)
	for i, renewal := range p.In(s).Renew(t.Context(), tokens) {
		if renewal.Err != nil {
			t.Fatalf("renew %d: %v", i, renewal.Err)
		}
	}
	check()
	wantLocked(t, s, p, n-len(completed))
	clock.Advance(31 * time.Second)
	again := lock(t, s, p, n)
	check()
	if want := n - len(completed) - len(renewed); len(again) != want {
		t.Fatalf("after the locks: got %d messages, want %d", len(again), want)
	}
	last := int64(0)
	for _, d := range again {
		if d.DeliveryCount != 1 || d.SequenceNumber <= last || completed[d.SequenceNumber] || renewed[d.SequenceNumber] {
			t.Fatalf("after the locks: got message %d behind %d with %d deliveries", d.SequenceNumber, last, d.DeliveryCount)
		}
		last = d.SequenceNumber
	}
	if err := settle(s, p, core.Complete, again...); err != nil {
		t.Fatal(err)
	}
	clock.Advance(30 * time.Second)
	if rest := lock(t, s, p, n); len(rest) != len(renewed) || settle(s, p, core.Release, rest...) != nil {
		t.Errorf("after the renewed locks: got %d messages, want %d", len(rest), len(renewed))
	}
	check()
	wantLocked(t, s, p, 0)
	if left := blocksOf(t, r.Client(), "p"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The numbers of a block need not be consecutive: others are holes.
func TestBlocksMayHaveHoles(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	s := open(t, r.URL(), redisstore.Options{Prefix: "p"})
	p := queue(t, s)
	var numbers []int64
	for range 4 {
		numbers = append(numbers, send(t, s, p, make([]string, 100)...)...)
	}
	var odd []int64
	for _, n := range numbers {
		if n%2 == 1 {
			odd = append(odd, n)
		}
	}
	singles, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: odd})
	ds := lock(t, s, p, len(numbers))
	if err != nil || len(singles) != len(odd) || len(ds) != len(numbers)-len(odd) || len(blocksOf(t, r.Client(), "p")) != 1 {
		t.Fatalf("locked %d messages by number (%v), then %d, of %d", len(singles), err, len(ds), len(numbers))
	}
	if err := checkLocks(t.Context(), r.Client(), "p"); err != nil {
		t.Error(err)
	}
	if err := settle(s, p, core.Complete, append(singles, ds...)...); err != nil {
		t.Error(err)
	}
	wantLocked(t, s, p, 0)
}

// Locks that end at the same time end in the order of their numbers, whether they are in a block or not.
func TestLocksOfOneDeadlineEndInOrder(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now})
	p := queue(t, s)
	p.MaxDeliveryCount = 1
	ds := lockMany(t, s, p, 100)
	if err := settle(s, p, core.Release, ds[5], ds[40]); err != nil {
		t.Fatal(err)
	}
	lock(t, s, p, 2)
	clock.Advance(time.Hour)
	dead := p
	dead.Sub = core.DeadLetter
	last := int64(0)
	letters := lock(t, s, dead.In(s), 100)
	for _, d := range letters {
		if d.EnqueuedSequenceNumber <= last {
			t.Fatalf("message %d became a dead letter after %d", d.EnqueuedSequenceNumber, last)
		}
		last = d.EnqueuedSequenceNumber
	}
	if len(letters) != len(ds) {
		t.Errorf("got %d dead letters, want %d", len(letters), len(ds))
	}
}

// A bit that is missing in a block is a lock that has ended, and a block without bits ends without a trace.
func TestBlocksThatLackBitsEndTheirOtherLocks(t *testing.T) {
	t.Parallel()
	clock, r := storetest.NewClock(), redistest.Start(t, redistest.Options{})
	s := open(t, r.URL(), redisstore.Options{Clock: clock.Now, Prefix: "p"})
	p := queue(t, s)
	ds := lockMany(t, s, p, 100)
	key := blocksOf(t, r.Client(), "p")[0]
	blocks, err := r.Client().HGetAll(t.Context(), key).Result()
	if err != nil || len(blocks) != 1 {
		t.Fatalf("got %d blocks, %v", len(blocks), err)
	}
	for block, bits := range blocks {
		without := []byte(bits)
		without[0] &^= 1 << 5
		if err := r.Client().HSet(t.Context(), key, block, without).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, err := range p.In(s).Settle(t.Context(), settlementsOf(ds[:20])) {
		if want := ds[i].SequenceNumber%128 == 5; (core.CodeOf(err) == core.LockLost) != want || err != nil != want {
			t.Errorf("message %d: got %v", ds[i].SequenceNumber, err)
		}
	}
	if err := r.Client().Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	send(t, s, p, "next")
	clock.Advance(time.Hour)
	if got := lock(t, s, p, 10); len(got) != 1 || string(got[0].Message.Body.Bytes) != "next" {
		t.Errorf("got %d messages, want the next one", len(got))
	}
}

// A gateway writes blocks only once the store says that all gateways can read them. Then it settles what was
// locked before, and a gateway that cannot read them leaves.
func TestBlocksAreWrittenOnceTheFormatAllowsThem(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	older := open(t, r.URL(), redisstore.Options{Prefix: "p"}.Reading(3))
	newer := open(t, r.URL(), redisstore.Options{Prefix: "p"})
	p := queue(t, older)
	ds := append(lockMany(t, older, p, 100), lockMany(t, newer, p, 200)...)
	if keys := blocksOf(t, r.Client(), "p"); len(keys) > 0 {
		t.Fatalf("blocks were written: %v", keys)
	}
	if err := settle(older, p, core.Complete, append(ds[:10:10], ds[150:160]...)...); err != nil {
		t.Fatal(err)
	}
	if err := r.Client().Set(t.Context(), "p{ct}f", 4, 0).Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-older.Lost():
	case <-time.After(eventually.Bound):
		t.Fatal("the older gateway stays")
	}
	eventually.True(t, "a block is written", func() bool {
		ds = append(ds, lockMany(t, newer, p, 100)...)
		return len(blocksOf(t, r.Client(), "p")) > 0
	})
	if err := settle(newer, p, core.Complete, append(ds[10:150:150], ds[160:]...)...); err != nil {
		t.Error(err)
	}
	wantLocked(t, newer, p, 0)
}
