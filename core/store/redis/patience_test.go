package redis_test

import (
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// TestAShortPauseOfTheServerStaysShort restarts the server while messages are appended one after the other. Of each
// restart at most the call in flight fails, whose outcome is unknown.
func TestAShortPauseOfTheServerStaysShort(t *testing.T) {
	t.Parallel()
	const restarts = 3
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := open(t, server.URL(), redis.Options{})
	p := queue(t, s)
	stop := make(chan struct{})
	var failures []error
	var appending sync.WaitGroup
	appending.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := p.In(s).Append(t.Context(), [][]*core.Message{{message("x")}})[0].Err; err != nil {
					failures = append(failures, err)
				}
			}
		}
	})
	for range restarts {
		server.Kill()
		server.Restart(t)
	}
	close(stop)
	appending.Wait()
	if len(failures) > restarts {
		t.Errorf("%d calls failed during %d pauses, want one of each at most: %v", len(failures), restarts, failures)
	}
	for _, err := range failures {
		if core.CodeOf(err) != core.Busy {
			t.Errorf("got %v, want busy", err)
		}
	}
}
