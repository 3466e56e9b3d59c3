package redis_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// TestAShortPauseOfTheServerStaysShort restarts the server while messages are appended one after the other, and
// while other calls begin. No call fails, and each message is stored once, also those whose answer was lost.
func TestAShortPauseOfTheServerStaysShort(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url string, pause func(down func())){
		"one server that is killed": func(t *testing.T) (string, func(func())) {
			server := redistest.Start(t, redistest.Options{AOF: "always"})
			return server.URL(), func(down func()) { server.Kill(); down(); server.Restart(t) }
		},
		"Sentinel": func(t *testing.T) (string, func(func())) {
			s := redistest.StartSentinel(t, 1)
			return s.URL(), func(down func()) { s.Restart(t, down) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, pause := start(t)
			s := open(t, url, redis.Options{Patience: time.Minute})
			p := queue(t, s)
			appended := int64(0)
			send := func() {
				if err := p.In(s).Append(t.Context(), [][]*core.Message{{message("x")}})[0].Err; err != nil {
					t.Errorf("append: %v", err)
				}
			}
			stop := make(chan struct{})
			var appending, calls sync.WaitGroup
			appending.Go(func() {
				for ; ; appended++ {
					select {
					case <-stop:
						return
					default:
						send()
					}
				}
			})
			for i := range 3 {
				pause(func() {
					for each := range 10 {
						calls.Go(send)
						calls.Go(func() {
							if _, err := s.CreateNamespace(t.Context(), core.Namespace{Name: fmt.Sprint("n", i, each), ID: "id"}); err != nil {
								t.Errorf("create a namespace: %v", err)
							}
						})
					}
				})
				calls.Wait()
			}
			close(stop)
			appending.Wait()
			if stats, err := storetest.Stats(t.Context(), s, p); err != nil || int64(stats.Ready) != appended+30 {
				t.Errorf("stored: got %+v, %v, want %d ready", stats, err, appended+30)
			}
		})
	}
}

// go-redis stops dialing after as many failures as its pool has connections, and then tries once a second.
func TestCallsSucceedAsSoonAsTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: "always"})
	s := open(t, server.URL(), redis.Options{Patience: -1})
	p := queue(t, s)
	server.Kill()
	for range 20 * runtime.GOMAXPROCS(0) {
		if err := s.Probe(t.Context()); core.CodeOf(err) != core.Busy {
			t.Fatalf("probe without a server: got %v, want busy", err)
		}
	}
	server.Restart(t)
	if err := s.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	send(t, s, p, "x")
}
