package redis_test

import (
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// TestAShortPauseOfTheServerStaysShort kills the server while messages are appended one after the other. No call
// fails, and each message is stored once, also those whose answer was lost.
func TestAShortPauseOfTheServerStaysShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := open(t, server.URL(), redis.Options{})
	p := queue(t, s)
	stop := make(chan struct{})
	appended := int64(0)
	var appending sync.WaitGroup
	appending.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := p.In(s).Append(t.Context(), [][]*core.Message{{message("x")}})[0].Err; err != nil {
					t.Errorf("append: %v", err)
				}
				appended++
			}
		}
	})
	for range 3 {
		server.Kill()
		server.Restart(t)
	}
	close(stop)
	appending.Wait()
	if stats, err := storetest.Stats(t.Context(), s, p); err != nil || int64(stats.Ready) != appended {
		t.Errorf("stored: got %+v, %v, want %d ready", stats, err, appended)
	}
}
