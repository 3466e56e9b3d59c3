package redis_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// A proxy may deliver a call after it has reset the gateway's connection, and after the gateway has
// therefore repeated the call.
func TestACallThatArrivesAfterItsRepetitionStoresNothing(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]time.Duration{"native commands": 0, "a script": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			proxy := redistest.Proxied(t, server)
			s := open(t, proxy.URL(), redisstore.Options{Patience: time.Minute})
			p := queue(t, s)
			send(t, s, p, "before")
			repeated := make(chan struct{})
			var held atomic.Bool
			proxy.Meddle(func(q redistest.Request) error {
				if bytes.Contains(q.Bytes, []byte("late")) && held.CompareAndSwap(false, true) {
					proxy.Break()
					<-repeated
				}
				return nil
			})
			const n = 20
			group := make([]*core.Message, n)
			for i := range group {
				group[i] = message("late")
				group[i].TimeToLive = life
			}
			if err := p.In(s).Append(t.Context(), [][]*core.Message{group})[0].Err; err != nil {
				t.Fatalf("append: %v", err)
			}
			before := callsOf(t, server, "evalsha")
			close(repeated)
			eventually.True(t, "the late call runs", func() bool { return callsOf(t, server, "evalsha") != before })
			exported := 0
			if err := s.Export(t.Context(), p.Ref, func(x *core.Stored) error {
				if x.Kind == core.StoredMessage {
					exported++
				}
				return nil
			}); err != nil || exported != n+1 {
				t.Errorf("%d messages were exported, %v, want %d", exported, err, n+1)
			}
			if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Ready != int64(n)+1 {
				t.Errorf("counts before the next call: got %+v, %v, want %d ready", stats, err, n+1)
			}
			if got := len(lock(t, s, p, 3*n+10)); got != n+1 {
				t.Errorf("%d messages were delivered, want %d", got, n+1)
			}
			if stats, err := storetest.Stats(t.Context(), s, p); err != nil || stats.Ready != 0 || stats.Locked != int64(n)+1 {
				t.Errorf("counts: got %+v, %v, want %d locked", stats, err, n+1)
			}
			send(t, s, p, "after")
			if got := len(lock(t, s, p, 10)); got != 1 {
				t.Errorf("%d messages were delivered afterwards, want 1", got)
			}
		})
	}
}
