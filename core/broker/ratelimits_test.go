package broker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// rated are limits of all entities that begin with q.
func rated(every time.Duration, burst int) Selected {
	return Selected{RateLimits: []For[core.Rate]{{Entity: "Q*", Set: core.Rate{Every: every, Burst: burst}}}}
}

// With several gateways and consumers, on queues with partitions or sessions, as many messages are delivered
// as the rate allows, and no failed delivery is counted.
func TestRatesHoldOverAllGatewaysAndConsumers(t *testing.T) {
	t.Parallel()
	for _, gateways := range []int{1, 3} {
		for _, consumers := range []int{1, 4, 20} {
			for kind, change := range map[string]func(*core.Settings){
				"queue": func(*core.Settings) {}, "partitioned": partitioned, "sessions": func(s *core.Settings) { s.RequiresSession = true },
			} {
				t.Run(fmt.Sprintf("%d gateways, %d consumers, %s", gateways, consumers, kind), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { keepRate(t, gateways, consumers, change) })
				})
			}
		}
	}
}

func keepRate(t *testing.T, gateways, consumers int, change func(*core.Settings)) {
	store := memory.New(memory.Options{})
	var all []*gateway
	for range gateways {
		g := startGatewayWith(store, Options{Namespace: "ns", Selected: rated(200*time.Millisecond, 1)})
		defer g.end()
		all = append(all, g)
	}
	s := newStarted(all[0].Broker, &faulty{Store: store}, nil)
	ent := s.create(t, "q", change)
	for i := range 600 {
		m := text(fmt.Sprint(i))
		if ent.Settings.RequiresSession {
			m.SessionID = fmt.Sprint("s", i%consumers)
		}
		s.send(t, "q", m)
	}
	var delivered, again atomic.Int64
	for i := range consumers {
		g := all[i%gateways]
		settle := make(chan []core.Delivery, 1000)
		defer close(settle)
		go func() {
			for ds := range settle {
				for _, d := range ds {
					delivered.Add(1)
					again.Add(int64(d.DeliveryCount))
					g.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken}})
				}
			}
		}()
		deliver := func(ds []core.Delivery) { settle <- ds }
		var r core.Receiver
		var err error
		if ent.Settings.RequiresSession {
			r, err = g.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{ID: fmt.Sprint("s", i), ReceiverOptions: core.ReceiverOptions{Deliver: deliver}})
		} else {
			r, err = g.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{Deliver: deliver})
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.AddCredit(1000, core.AnyMessage)
	}
	synctest.Wait()
	time.Sleep(time.Second)
	before := delivered.Load()
	time.Sleep(time.Minute)
	synctest.Wait()
	if n := delivered.Load() - before; n < 294 || n > 306 {
		t.Errorf("%d messages in a minute, want 300", n)
	}
	if again.Load() != 0 {
		t.Errorf("%d deliveries again", again.Load())
	}
}

// What is held back looks like an empty queue to a Drain, and is delivered when the limit allows it, or ends.
func TestADrainDoesNotWaitForARate(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(*core.Settings){"queue": func(*core.Settings) {}, "sessions": func(s *core.Settings) { s.RequiresSession = true }} {
		t.Run(kind, func(t *testing.T) {
			inBubbleWith(t, Options{Namespace: "ns", Selected: rated(10*time.Second, 2)}, func(t *testing.T, b *started) {
				ent := b.create(t, "q", change)
				for range 9 {
					m := text("m")
					if ent.Settings.RequiresSession {
						m.SessionID = "s"
					}
					b.send(t, "q", m)
				}
				var got atomic.Int64
				deliver := func(ds []core.Delivery) { got.Add(int64(len(ds))) }
				var r core.Receiver
				var err error
				if ent.Settings.RequiresSession {
					r, err = b.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{ID: "s", ReceiverOptions: core.ReceiverOptions{Deliver: deliver}})
				} else {
					r, err = b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{Deliver: deliver})
				}
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				for _, want := range []int64{2, 2} {
					r.AddCredit(5, core.AnyMessage)
					began, drained := time.Now(), make(chan int, 1)
					r.Drain(func(unspent int) { drained <- unspent })
					<-drained
					if synctest.Wait(); got.Load() != want || time.Since(began) > time.Second {
						t.Errorf("drained with %d messages after %v, want %d at once", got.Load(), time.Since(began), want)
					}
				}
				r.AddCredit(100, core.AnyMessage)
				time.Sleep(10 * time.Second)
				if synctest.Wait(); got.Load() != 3 {
					t.Errorf("after ten seconds: %d messages, want 3", got.Load())
				}
				b.Select(Selected{})
				time.Sleep(time.Second)
				if synctest.Wait(); got.Load() != 9 {
					t.Errorf("without a limit: %d messages, want 9", got.Load())
				}
			})
		})
	}
}

// What the configuration applies to an entity is where its histories and metrics are read.
func TestHistoriesAndTrafficSayWhatIsApplied(t *testing.T) {
	t.Parallel()
	selected := rated(200*time.Millisecond, 1)
	selected.CircuitBreakers = []For[Breaker]{{Entity: "q", Set: Breaker{Failures: 50, Of: 2, Consecutive: 2, Pause: time.Minute}}}
	selected.DeadLetters = []For[time.Duration]{{Entity: "q", Set: 30 * 24 * time.Hour}}
	o := Options{Namespace: "ns", Selected: selected, Histories: []For[core.HistoryBounds]{{Entity: "*", Set: core.HistoryBounds{Keep: time.Hour, Max: 100}}}}
	inBubbleWith(t, o, func(t *testing.T, b *started) {
		for name, want := range map[string]string{"q": "5/s closed P30D 5", "other": "   0"} {
			b.create(t, name)
			b.send(t, name, named("m", text("m")))
			a, err := b.Explain(t.Context(), root, name, core.Subject{MessageID: "m"})
			if err != nil {
				t.Fatal(err)
			}
			for _, of := range b.Traffic() {
				if of.Entity == name {
					if got := fmt.Sprint(a.Applied.RateLimit, " ", a.Applied.CircuitBreaker, " ", a.Applied.KeepDeadLetters, " ", of.PerSecond); got != want {
						t.Errorf("%s: got %q, want %q", name, got, want)
					}
				}
			}
		}
	})
}

// A call that waits for a session needs a goroutine of the broker to look for one.
func TestSettingsChangeWhileACallWaitsForASession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.RequiresSession = true })
		accepted := make(chan error, 1)
		go func() {
			_, err := b.accept(t.Context(), "q", "", core.PeekLock)
			accepted <- err
		}()
		synctest.Wait()
		b.Select(rated(time.Second, 1))
		if err := <-accepted; !errors.Is(err, core.Timeout) {
			t.Errorf("got %v, want %v, because no session has messages", err, core.Timeout)
		}
	})
}
