package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

func TestAGatewayWaitsForRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	r.Kill()
	g, err := newGateway(t.TempDir(), r.URL(), "--config", configured(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	if err := g.launch(); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: g, plain: true}
	e.eventually("the log says that the gateway waits", func() bool { return strings.Contains(g.log.String(), "waiting for Redis") })
	if a := e.http(http.MethodGet, "health", "", nil); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "connect") {
		t.Errorf("health: got %d %q, want 503 with the reason", a.status, a.body)
	}
	if a := e.http(http.MethodPost, "orders/messages", "x", nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("HTTP: got %d %s, want 503", a.status, a.body)
	}
	sent := make(chan error, 1)
	s := e.sender("orders")
	go func() { sent <- s.SendMessage(e.ctx(), &azservicebus.Message{Body: []byte("early")}, nil) }()
	select {
	case err := <-sent:
		t.Fatalf("a send ended while Redis was away: %v", err)
	case <-time.After(silence):
	}
	r.Restart(t)
	if err := <-sent; err != nil {
		t.Errorf("the client that waited: %v", err)
	}
	e.eventually("health is good", func() bool { return g.health() == nil })
	if m := e.one(e.receiver("orders")); string(m.Body) != "early" {
		t.Errorf("got %q", m.Body)
	}
	if n := strings.Count(g.log.String(), "waiting for Redis"); n != 1 {
		t.Errorf("the log says %d times that the gateway waits:\n%s", n, g.log.String())
	}
	g.stop()
	if g.err != nil {
		t.Errorf("SIGTERM: %v", g.err)
	}
}

func TestAGatewayThatWaitsStopsInOrder(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{})
	r.Kill()
	g, err := newGateway(t.TempDir(), r.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	if err := g.launch(); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: g, plain: true}
	e.eventually("the log says that the gateway waits", func() bool { return strings.Contains(g.log.String(), "waiting for Redis") })
	g.stop()
	if g.err != nil {
		t.Errorf("SIGTERM: %v\n%s", g.err, g.log.String())
	}
}

// configured is a configuration with the queue orders.
func configured(t *testing.T) string {
	t.Helper()
	f := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(f, []byte("queues:\n  - name: orders\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// Whatever Redis loses, clients of configured entities go on by their own retries.
func TestRedisLosesEverythingUnderClients(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, r *redistest.Server){
		"FLUSHALL": func(t *testing.T, r *redistest.Server) {
			if err := r.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		},
		"a restart without its data": func(t *testing.T, r *redistest.Server) {
			r.Kill()
			r.Restart(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, redistest.Options{})
			g := own(t, r.URL(), "--config", configured(t))
			e := &env{T: t, gw: g, plain: true}
			c, err := azservicebus.NewClientFromConnectionString(g.connection(devPolicy, devKey, true), &azservicebus.ClientOptions{
				RetryOptions: azservicebus.RetryOptions{MaxRetries: 100, RetryDelay: 100 * time.Millisecond, MaxRetryDelay: silence},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
			s := e.senderOf(c, "orders")
			receiver, err := c.NewReceiverForQueue("orders", nil)
			if err != nil {
				t.Fatal(err)
			}
			var received atomic.Int64 // the number of the last message
			running, stop := context.WithCancel(t.Context())
			ended := make(chan struct{}, 2)
			go func() {
				defer func() { ended <- struct{}{} }()
				for running.Err() == nil {
					ms, err := receiver.ReceiveMessages(running, 10, nil)
					if failure, ok := errors.AsType[*amqp.Error](err); ok && failure.Condition == amqp.ErrCondNotFound {
						t.Errorf("receive: %v", err)
						return
					}
					for _, m := range ms {
						var n int64
						if _, err := fmt.Sscan(string(m.Body), &n); err != nil {
							t.Error(err)
						}
						received.Store(n)
						brief, cancel := context.WithTimeout(running, silence) // as often as it may, the SDK tries again what was lost
						_ = receiver.CompleteMessage(brief, m, nil)
						cancel()
					}
				}
			}()
			var sent atomic.Int64
			go func() {
				defer func() { ended <- struct{}{} }()
				for running.Err() == nil {
					n := sent.Load() + 1
					if err := s.SendMessage(running, &azservicebus.Message{Body: fmt.Append(nil, n)}, nil); err != nil && running.Err() == nil {
						t.Errorf("send: %v", err)
						return
					}
					sent.Store(n)
				}
			}()
			defer func() {
				stop()
				<-ended
				<-ended
			}()
			e.eventually("messages pass", func() bool { return received.Load() > 10 })
			lose(t, r)
			e.eventually("the log says what is lost", func() bool { return strings.Contains(g.log.String(), "Redis has lost its data") })
			e.eventually("health is good again", func() bool { return g.health() == nil })
			after := sent.Load() + 1 // is sent after the loss, or may be
			e.eventually("messages pass again", func() bool { return received.Load() > after })
			if a := e.http(http.MethodGet, "health", "", nil); !strings.Contains(a.body, `"lostData"`) {
				t.Errorf("health does not tell of the loss: %s", a.body)
			}
			if n := strings.Count(g.log.String(), "Redis has lost its data"); n != 1 {
				t.Errorf("the log tells %d times of the loss:\n%s", n, g.log.String())
			}
			e.runtime("orders")
		})
	}
}

func TestOperatorsLearnWhyRedisDoesNotServe(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	g := own(t, r.URL())
	e := &env{T: t, gw: g, plain: true}
	queue := e.queue(nil)
	e.send(queue, "before")
	limit := func(bytes string) {
		t.Helper()
		if err := r.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	raw, err := e.amqp().NewSender(e.ctx(), queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		refused, ok := errors.AsType[*amqp.Error](raw.Send(e.ctx(), amqp.NewMessage([]byte("x")), nil))
		if !ok || refused.Condition != "com.microsoft:server-busy" || strings.Contains(refused.Description, "memory") {
			t.Errorf("got %v, want server-busy without the reason", refused)
		}
	}
	if m := e.one(e.receiver(queue)); string(m.Body) != "before" { // receiving frees memory
		t.Errorf("got %q", m.Body)
	}
	a := e.http(http.MethodGet, "health", "", nil)
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"cause":"out-of-memory"`) || !strings.Contains(a.body, "maxmemory") {
		t.Errorf("health: got %d %s, want 503 with the cause", a.status, a.body)
	}
	if a := e.http(http.MethodGet, "$crosstown/metrics", "", nil); !strings.Contains(a.body, `crosstown_redis_failures_total{cause="out-of-memory"}`) {
		t.Errorf("the metrics do not have the cause: %d", a.status)
	}
	if n := strings.Count(g.log.String(), "cause=out-of-memory"); n != 1 {
		t.Errorf("the log tells %d times of the cause:\n%s", n, g.log.String())
	}
	limit("0")
	e.eventually("health is good again", func() bool { return g.health() == nil })
	e.send(queue, "after")
}
