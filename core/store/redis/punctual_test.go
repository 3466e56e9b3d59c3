package redis_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// The question for the server's time takes long, its answer does not: whoever
// believed that they take equally long would be ahead of the server's clock.
func TestTheClockIsNeverAheadOfTheServers(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	p := redistest.Proxied(t, r)
	var asked atomic.Int64
	p.Meddle(func(q redistest.Request) error {
		if bytes.Contains(bytes.ToLower(q.Bytes), []byte("\r\ntime\r\n")) {
			if asked.Add(1)%2 == 1 {
				time.Sleep(90 * time.Millisecond) // on the way to the server
			}
		}
		return nil
	})
	s := open(t, p.URL(), redisstore.Options{})
	server := func() time.Time {
		now, err := r.Client().Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	notBefore := func(what string, due time.Time) {
		t.Helper()
		if now := server(); now.Before(due) {
			t.Fatalf("%s at %v, which is due at %v", what, now, due)
		}
	}
	one := func(at core.Partition) core.Delivery {
		t.Helper()
		for {
			if got := lock(t, s, at, 1); len(got) > 0 {
				return got[0]
			}
		}
	}
	for asked.Load() < 6 { // three times before the store was open
		if now, shown := s.Now(), server(); now.After(shown) {
			t.Fatalf("the store's clock shows %v, then the server's %v", now, shown)
		}
		at, fading := queue(t, s), queue(t, s)
		at.LockDuration = 30 * time.Millisecond
		m := message("due")
		m.ScheduledEnqueueTime = server().Add(50 * time.Millisecond).Truncate(time.Millisecond)
		if answer := at.In(s).Append(t.Context(), [][]*core.Message{{m}})[0]; answer.Err != nil {
			t.Fatal(answer.Err)
		}
		d := one(at)
		notBefore("a scheduled message was delivered", m.ScheduledEnqueueTime)
		one(at)
		notBefore("a lock ended", d.LockedUntil)
		short := message("short-lived")
		short.TimeToLive = 30 * time.Millisecond
		sent := s.Now().Truncate(time.Millisecond)
		if answer := fading.In(s).Append(t.Context(), [][]*core.Message{{short}})[0]; answer.Err != nil {
			t.Fatal(answer.Err)
		}
		for left := 1; left > 0; {
			ds, err := fading.In(s).Peek(t.Context(), core.PeekRequest{Max: 1})
			if err != nil {
				t.Fatal(err)
			}
			left = len(ds)
		}
		notBefore("a message expired", sent.Add(short.TimeToLive))
	}
}
