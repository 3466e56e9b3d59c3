package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// kept is what Redis says that all keys with a prefix take.
func kept(t *testing.T, rdb *redis.Client, prefix string) (sum int64) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.DeleteFunc(keys, isReceipt) {
		n, err := rdb.MemoryUsage(t.Context(), key, 0).Result()
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		sum += n
	}
	return sum
}

func TestSizesAreWhatRedisTakes(t *testing.T) {
	t.Parallel()
	for _, kind := range storetest.Kinds() {
		for _, size := range kind.Sizes() {
			t.Run(fmt.Sprintf("%s/%d", kind.Name, size), func(t *testing.T) {
				t.Parallel()
				clock := storetest.NewClock()
				names := prefix()
				s := open(t, server(t).URL(), redisstore.Options{Clock: clock.Now, Prefix: names})
				n := kind.ManyOf(size)
				stock := storetest.NewStock(t, s, clock, kind)
				before := kept(t, server(t).Client(), names)
				stock.Fill(n, size)
				kept, said := kept(t, server(t).Client(), names)-before, stock.Size()
				t.Logf("%d B each: Redis took %d, the size says %d: %.2f", kept/int64(n), kept, said, float64(kept)/float64(said))
				if 2*kept > 3*said || 2*said > 3*kept {
					t.Errorf("%d messages took %d bytes, the entity's size says %d", n, kept, said)
				}
				stock.Empty()
				if left := stock.Size(); left != 0 {
					t.Errorf("once it is empty the size says %d", left)
				}
			})
		}
	}
}

// What a partition holds first says nothing about the rest.
func TestTheSizeOfLargeMessagesBehindSmallOnes(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	p := queue(t, s)
	for _, c := range []struct{ messages, size int }{{1000, 10}, {32, 64 << 10}, {100, 10}} {
		group := make([]*core.Message, c.messages)
		for i := range group {
			group[i] = &core.Message{Body: core.Body{Bytes: make([]byte, c.size)}}
		}
		if a := p.In(s).Append(t.Context(), [][]*core.Message{group}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
	stats, err := storetest.Stats(t.Context(), s, p)
	if least := int64(32 * 64 << 10); err != nil || stats.Bytes < least || stats.Bytes > 3*least/2 {
		t.Errorf("got %d, %v, want about %d", stats.Bytes, err, least)
	}
}

// A topic is as large as its subscriptions, with what is kept of their messages and dead letters.
func TestTheSizeOfATopicIsWhatRedisTakes(t *testing.T) {
	t.Parallel()
	names := prefix()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: names})
	st := newStand(t, s, "a", "b")
	c := st.subscribe(s, "c", true)
	before := kept(t, server(t).Client(), names)
	for i := range 200 {
		m := &core.Message{TimeToLive: time.Hour, SessionID: fmt.Sprintf("session %d", i), Body: core.Body{Bytes: make([]byte, 600)}}
		x := to(m, st.at("a"), st.at("b"), c)
		if a := st.own.In(s).Publish(t.Context(), st.version(s), [][]core.Publication{{x}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
	compare := func(what string) {
		stats, err := storetest.Stats(t.Context(), s, st.own)
		if kept := kept(t, server(t).Client(), names) - before; err != nil || 2*kept > 3*stats.Bytes || 2*stats.Bytes > 3*kept {
			t.Errorf("%s: Redis took %d, the size says %d, %v", what, kept, stats.Bytes, err)
		}
	}
	compare("available")
	for name, o := range map[string]core.Outcome{"a": core.DeadLetterOutcome, "b": core.Complete} {
		ds, _, err := st.at(name).In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 200}})
		if err != nil || len(ds) != 200 {
			t.Fatal(len(ds), err)
		}
		var all []core.Settlement
		for i := range ds {
			all = append(all, core.Settlement{Token: ds[i].LockToken, Outcome: o})
		}
		if err := errors.Join(st.at(name).In(s).Settle(t.Context(), all)...); err != nil {
			t.Fatal(err)
		}
	}
	compare("dead-lettered in one subscription")
	if err := s.DeleteEntity(t.Context(), "ns", core.SubscriptionPath(st.topic.Name, "c")); err != nil {
		t.Fatal(err)
	}
	compare("with dead letters alone")
}
