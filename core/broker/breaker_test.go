package broker

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// guarded are breakers with the usual settings, but that pause, of all entities that begin with q.
func guarded(pause time.Duration) Selected {
	return Selected{CircuitBreakers: []For[Breaker]{{Entity: "Q*", Set: Breaker{Failures: 10, Of: 20, Consecutive: 5, Pause: pause}}}}
}

func withBreaker(pause time.Duration) Options {
	return Options{Namespace: "ns", Selected: guarded(pause)}
}

// consume receives with a connection and credit, and calls work for each message after it has taken a time. The
// message is completed if work returns true, else abandoned.
func (b *started) consume(t *testing.T, address, peer string, credit int, takes time.Duration, work func(core.Delivery) bool) (stop func()) {
	t.Helper()
	ctx := core.WithPeer(t.Context(), peer)
	var r core.Receiver
	var busy sync.WaitGroup
	r, err := b.OpenReceiver(ctx, root, core.At(address), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
		busy.Go(func() {
			time.Sleep(takes)
			settlements := make([]core.Settlement, len(ds))
			for i, d := range ds {
				settlements[i] = core.Settlement{Token: d.LockToken}
				if !work(d) {
					settlements[i].Outcome = core.Abandon
				}
			}
			b.Settle(ctx, root, core.At(address), settlements)
			r.AddCredit(len(ds), core.AnyMessage)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.AddCredit(credit, core.AnyMessage<<10)
	return func() { r.Close(); busy.Wait() }
}

// While what receivers call is away for ten minutes, messages arrive at 100 a second. With a breaker none becomes a
// dead letter, and receivers work at their full rate soon after it is back.
func TestABreakerKeepsMessagesWhileADownstreamIsAway(t *testing.T) {
	t.Parallel()
	const pause = 5 * time.Second
	for name, o := range map[string]Options{"with": withBreaker(pause), "without": {Namespace: "ns"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubbleWith(t, o, func(t *testing.T, b *started) {
				b.create(t, "q")
				var down atomic.Bool
				var done, attempts atomic.Int64
				for i := range 4 { // together they can do 200 a second
					defer b.consume(t, "q", fmt.Sprint(i), 5, 100*time.Millisecond, func(core.Delivery) bool {
						attempts.Add(1)
						if down.Load() {
							return false
						}
						done.Add(1)
						return true
					})()
				}
				send := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
						b.sendTogether(t, "q", 5)
					}
				}
				send(10 * time.Second)
				down.Store(true)
				before := attempts.Load()
				send(10 * time.Minute)
				tries := attempts.Load() - before
				down.Store(false)
				send(pause + 5*time.Second)
				before = done.Load()
				send(time.Second)
				rate := done.Load() - before
				_, rt, err := b.Entity(t.Context(), root, "q")
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d dead letters, %d attempts while it was away, then %d/s", name, rt.DeadLetter, tries, rate)
				switch name {
				case "with":
					if rt.DeadLetter != 0 || rate < 100 || rt.CircuitBreaker != "closed" {
						t.Errorf("%d dead letters and %d/s with the breaker %s", rt.DeadLetter, rate, rt.CircuitBreaker)
					}
				default:
					if rt.DeadLetter < 100 {
						t.Errorf("%d dead letters: the test shows nothing", rt.DeadLetter)
					}
				}
			})
		})
	}
}

// sendTogether sends n messages in one call.
func (b *started) sendTogether(t *testing.T, name string, n int) {
	t.Helper()
	s := b.sender(t, name)
	defer s.Close()
	for _, a := range s.Send(t.Context(), each(numbered(n)...)) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// breakerOf is the state of the breaker of an entity.
func (b *started) breakerOf(t *testing.T, name string) string {
	t.Helper()
	_, rt, err := b.Entity(t.Context(), root, name)
	if err != nil {
		t.Fatal(err)
	}
	return rt.CircuitBreaker
}

func (b *started) wantBreaker(t *testing.T, name, want string) {
	t.Helper()
	synctest.Wait()
	if got := b.breakerOf(t, name); got != want {
		t.Fatalf("the breaker of %s is %q, want %q", name, got, want)
	}
}

// receiveAs is receive for a connection.
func (b *started) receiveAs(t *testing.T, address, peer string, credit int) *inbox {
	t.Helper()
	in := &inbox{}
	r, err := b.OpenReceiver(core.WithPeer(t.Context(), peer), root, core.At(address), core.ReceiverOptions{Deliver: in.deliver})
	if err != nil {
		t.Fatal(err)
	}
	in.Receiver = r
	in.AddCredit(credit, core.AnyMessage)
	return in
}

// settleAs settles for a connection.
func (b *started) settleAs(t *testing.T, address, peer string, s core.Settlement, ds ...core.Delivery) {
	t.Helper()
	for _, d := range ds {
		s.Token = d.LockToken
		if err := b.Settle(core.WithPeer(t.Context(), peer), root, core.At(address), []core.Settlement{s})[0]; err != nil {
			t.Fatal(err)
		}
	}
}

// Five failures open a breaker.
func TestWhatABreakerCountsAsAFailure(t *testing.T) {
	t.Parallel()
	ended := func(s core.Settlement) func(*testing.T, *started, *inbox, []core.Delivery) {
		return func(t *testing.T, b *started, _ *inbox, ds []core.Delivery) { b.settleAs(t, "q", "", s, ds...) }
	}
	inTransaction := func(commit bool) func(*testing.T, *started, *inbox, []core.Delivery) {
		return func(t *testing.T, b *started, _ *inbox, ds []core.Delivery) {
			tx := b.Begin()
			for _, d := range ds {
				if err := tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken, Outcome: core.Abandon}}); err != nil {
					t.Fatal(err)
				}
			}
			b.wantBreaker(t, "q", "closed")
			if commit {
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				tx.Rollback(t.Context())
			}
		}
	}
	for name, c := range map[string]struct {
		end  func(t *testing.T, b *started, in *inbox, ds []core.Delivery)
		want string
	}{
		"abandoned":                    {ended(core.Settlement{Outcome: core.Abandon}), "open"},
		"abandoned with a retry":       {ended(core.Settlement{Outcome: core.Abandon, Properties: retryAfter(t, 1)}), "closed"},
		"a failed push":                {ended(core.Settlement{Outcome: core.Abandon, Properties: retryAfter(t, 1), Failed: true}), "open"},
		"the last of a push":           {ended(core.Settlement{Outcome: core.DeadLetterOutcome, Failed: true}), "open"},
		"released":                     {ended(core.Settlement{Outcome: core.Release}), "closed"},
		"completed":                    {ended(core.Settlement{}), "closed"},
		"deferred":                     {ended(core.Settlement{Outcome: core.Defer}), "closed"},
		"dead-lettered":                {ended(core.Settlement{Outcome: core.DeadLetterOutcome}), "closed"},
		"abandoned in a transaction":   {inTransaction(true), "open"},
		"in a transaction rolled back": {inTransaction(false), "closed"},
		"the lock ends":                {func(*testing.T, *started, *inbox, []core.Delivery) { time.Sleep(61 * time.Second) }, "open"},
		"the lock ends after the link": {func(_ *testing.T, _ *started, in *inbox, _ []core.Delivery) {
			in.Close()
			time.Sleep(61 * time.Second)
		}, "closed"},
		"settled after the lock": {func(t *testing.T, b *started, in *inbox, ds []core.Delivery) {
			time.Sleep(60 * time.Second)
			for _, d := range ds {
				if err := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken}})[0]; core.CodeOf(err) != core.LockLost {
					t.Fatal(err)
				}
			}
		}, "open"},
		"the lock is renewed": {func(t *testing.T, b *started, _ *inbox, ds []core.Delivery) {
			for range 3 {
				time.Sleep(40 * time.Second)
				for _, d := range ds {
					if r := b.Renew(t.Context(), root, core.At("q"), []core.LockToken{d.LockToken}); r[0].Err != nil {
						t.Fatal(r[0].Err)
					}
				}
			}
		}, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, withBreaker(time.Hour), func(t *testing.T, b *started) {
				b.create(t, "q", func(s *core.Settings) { s.LockDuration = time.Minute })
				b.send(t, "q", numbered(5)...)
				in := b.receive(t, "q", core.PeekLock, 5)
				defer in.Close()
				ds := in.take()
				b.settleAs(t, "q", "", core.Settlement{Outcome: core.Release}) // nothing
				c.end(t, b, in, ds)
				b.wantBreaker(t, "q", c.want)
			})
		})
	}
}

func retryAfter(t *testing.T, seconds int32) core.Properties {
	t.Helper()
	p, err := core.NewProperties(core.Property{Key: core.PropertyRetryAfter, Value: seconds})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A session's lock that ends is one failure, however many messages the session holds.
func TestALostSessionIsOneFailure(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(time.Hour), func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, func(s *core.Settings) { s.LockDuration = 10 * time.Second })
		b.send(t, "q", of("s", 0, 10)...)
		for i := range 5 {
			b.wantBreaker(t, "q", "closed")
			h := b.mustAccept(t, "q", "s")
			h.AddCredit(10, core.AnyMessage)
			if n := len(h.take()); n != 10 {
				t.Fatalf("%d: %d messages", i, n)
			}
			time.Sleep(15 * time.Second)
			h.Close()
		}
		b.wantBreaker(t, "q", "open")
	})
}

// Half of the last twenty results open a breaker, without five failures one after the other.
func TestABreakerOpensByShare(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(time.Hour), func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(100)...)
		in := b.receive(t, "q", core.PeekLock, 100)
		defer in.Close()
		ds := in.take()
		for i, d := range ds[:19] {
			b.settleAs(t, "q", "", core.Settlement{Outcome: []core.Outcome{core.Complete, core.Abandon}[i%2]}, d)
		}
		b.wantBreaker(t, "q", "closed")
		b.settleAs(t, "q", "", core.Settlement{Outcome: core.Abandon}, ds[19])
		b.wantBreaker(t, "q", "open")
	})
}

// An open breaker delivers nothing for its pause, then one message. Messages that always fail and are first in the
// queue do not keep it open: they are delayed, and their counts stay.
func TestAHalfOpenBreakerReachesGoodMessages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*core.Settings){"queue": func(*core.Settings) {}, "partitioned": partitioned} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, withBreaker(10*time.Second), func(t *testing.T, b *started) {
				b.create(t, "q", change)
				b.send(t, "q", numbered(120)...)
				in := b.receive(t, "q", core.PeekLock, 40)
				defer in.Close()
				held := in.take()
				first := held[:5]
				b.settleAs(t, "q", "", core.Settlement{Outcome: core.Abandon}, first...)
				b.wantBreaker(t, "q", "open")
				b.settleAs(t, "q", "", core.Settlement{}, held[5:]...) // which say nothing
				poison := map[string]bool{}
				for _, d := range first {
					poison[string(d.Body.Bytes)] = true
				}
				in.AddCredit(100, core.AnyMessage)
				time.Sleep(9 * time.Second)
				if ds := in.take(); len(ds) != 0 {
					t.Fatalf("%d messages in the pause", len(ds))
				}
				for probes := 1; ; probes++ {
					time.Sleep(1100 * time.Millisecond)
					ds := in.take()
					if len(ds) != 1 || probes > 12 {
						t.Fatalf("probe %d: %d messages", probes, len(ds))
					}
					b.wantBreaker(t, "q", "half-open")
					d := ds[0]
					if !poison[string(d.Body.Bytes)] {
						b.settleAs(t, "q", "", core.Settlement{}, d)
						break
					}
					if d.DeliveryCount != 1 {
						t.Fatalf("%d failures", d.DeliveryCount)
					}
					b.settleAs(t, "q", "", core.Settlement{Outcome: core.Abandon}, d)
					b.wantBreaker(t, "q", "open")
					in.AddCredit(1, core.AnyMessage)
					time.Sleep(9 * time.Second)
				}
				left := 79
				for most := 2; left > 0 && most < 99; most *= 2 { // as many as may be in flight
					time.Sleep(circuitLook)
					ds := in.take()
					if len(ds) > most || most < 16 && len(ds) != most {
						t.Fatalf("%d messages in flight, want %d", len(ds), most)
					}
					for _, d := range ds {
						if !poison[string(d.Body.Bytes)] {
							left--
						}
					}
					b.settleAs(t, "q", "", core.Settlement{}, ds...)
				}
				b.wantBreaker(t, "q", "closed")
			})
		})
	}
}

// circuitLook is longer than a receiver waits that a half-open breaker has held back.
const circuitLook = 101 * time.Millisecond

// In an entity with sessions, messages that are abandoned while the breaker is open are released in their order.
func TestABreakerKeepsTheOrderOfSessions(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(10*time.Second), func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("s", 0, 30)...)
		var failing atomic.Bool
		failing.Store(true)
		var got []string
		h := b.mustAccept(t, "q", "s")
		defer h.Close()
		work := func() {
			for range 100 {
				time.Sleep(time.Second)
				if time.Until(h.LockedUntil()) < 20*time.Second {
					if _, err := h.Renew(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for _, d := range h.take() {
					o := core.Abandon
					if !failing.Load() {
						o = core.Complete
						got = append(got, string(d.Body.Bytes))
					}
					settle(t, b, "q", o, d)
					if o == core.Abandon && d.DeliveryCount > 5 {
						t.Fatalf("%d failures", d.DeliveryCount)
					}
					h.AddCredit(1, core.AnyMessage)
				}
			}
		}
		h.AddCredit(1, core.AnyMessage)
		work()
		if b.breakerOf(t, "q") == "closed" {
			t.Fatal("the breaker is closed")
		}
		failing.Store(false)
		work()
		if want := bodies(deliveriesOf(of("s", 0, 30))); strings.Join(got, " ") != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func deliveriesOf(ms []*core.Message) []core.Delivery {
	ds := make([]core.Delivery, len(ms))
	for i, m := range ms {
		ds[i].Message = m
	}
	return ds
}

// What an open breaker holds back looks like an empty queue to a Drain.
func TestADrainDoesNotWaitForABreaker(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(*core.Settings){"queue": func(*core.Settings) {}, "partitioned": partitioned, "sessions": sessionful} {
		t.Run(kind, func(t *testing.T) {
			inBubbleWith(t, withBreaker(time.Minute), func(t *testing.T, b *started) {
				ent := b.create(t, "q", change)
				ms := numbered(20)
				if ent.Settings.RequiresSession {
					ms = of("s", 0, 20)
				}
				b.send(t, "q", ms...)
				in := &inbox{}
				var r core.Receiver
				var err error
				if ent.Settings.RequiresSession {
					r, err = b.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{ID: "s", ReceiverOptions: core.ReceiverOptions{Deliver: in.deliver}})
				} else {
					r, err = b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{Deliver: in.deliver})
				}
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				in.Receiver = r
				in.AddCredit(5, core.AnyMessage)
				settle(t, b, "q", core.Abandon, in.take()...)
				b.wantBreaker(t, "q", "open")
				for range 3 { // also while a probe is in flight
					in.AddCredit(5, core.AnyMessage)
					began := time.Now()
					in.drain()
					synctest.Wait()
					if n := len(in.drains()); n == 0 || time.Since(began) > 0 {
						t.Fatalf("%d drains after %v", n, time.Since(began))
					}
					in.mu.Lock()
					in.drained = nil
					in.mu.Unlock()
					time.Sleep(20 * time.Second)
				}
			})
		})
	}
}

// A connection that fails alone does not open a breaker where others receive too: it fills at most eight of twenty
// places.
func TestOneConnectionDoesNotOpenABreaker(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(time.Hour), func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.MaxDeliveryCount = 1000 })
		b.send(t, "q", numbered(300)...)
		bad, good := b.receiveAs(t, "q", "bad", 100), b.receiveAs(t, "q", "good", 100)
		fails, works := bad.take(), good.take()
		b.settleAs(t, "q", "bad", core.Settlement{Outcome: core.Abandon}, fails[:40]...) // the other one has not answered yet
		b.wantBreaker(t, "q", "closed")
		for i := range 40 {
			b.settleAs(t, "q", "good", core.Settlement{}, works[i])
			b.settleAs(t, "q", "bad", core.Settlement{Outcome: core.Abandon}, fails[40+i])
		}
		b.wantBreaker(t, "q", "closed")
		b.settleAs(t, "q", "good", core.Settlement{Outcome: core.Abandon}, works[40])
		b.settleAs(t, "q", "bad", core.Settlement{Outcome: core.Abandon}, fails[80:83]...)
		b.wantBreaker(t, "q", "open") // five failures of both
		bad.Close()
		good.Close()
	})
}

// Fewer failures than a message may have open a breaker, and the log says so once.
func TestABreakerOpensBeforeMessagesAreDeadLettered(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]string{1: "cannot prevent dead letters", 3: "opens after fewer failures than configured"} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			var log syncBuffer
			o := withBreaker(10 * time.Second)
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			inBubbleWith(t, o, func(t *testing.T, b *started) {
				b.create(t, "q", func(s *core.Settings) { s.MaxDeliveryCount = most })
				defer b.consume(t, "q", "", 5, time.Millisecond, func(core.Delivery) bool { return false })()
				b.send(t, "q", text("m"))
				time.Sleep(10 * time.Minute)
				_, rt, err := b.Entity(t.Context(), root, "q")
				if err != nil || rt.DeadLetter != map[int]int64{1: 1, 3: 0}[most] {
					t.Errorf("%d dead letters, %v", rt.DeadLetter, err)
				}
				if n := strings.Count(log.String(), want); n != 1 {
					t.Errorf("logged %d times:\n%s", n, log.String())
				}
			})
		})
	}
}

// syncBuffer is a buffer for a log.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Each gateway has a state of its own. An update of the entity closes the breakers of all; a reload closes those that
// change.
func TestBreakersAreClosedByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		var all []*started
		var log syncBuffer
		o := withBreaker(time.Hour)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for range 2 {
			g := startGatewayWith(store, o)
			defer g.end()
			all = append(all, newStarted(g.Broker, &faulty{Store: store}, nil))
		}
		ent := all[0].create(t, "q")
		open := func(b *started) {
			b.send(t, "q", numbered(5)...)
			in := b.receive(t, "q", core.PeekLock, 5)
			defer in.Close()
			settle(t, b, "q", core.Abandon, in.take()...)
			b.wantBreaker(t, "q", "open")
		}
		open(all[0])
		all[1].wantBreaker(t, "q", "closed")
		open(all[1])
		waiting := all[1].receive(t, "q", core.PeekLock, 20)
		if n := len(waiting.take()); n != 0 {
			t.Fatalf("%d messages of an open breaker", n)
		}
		if _, err := all[0].UpdateEntity(t.Context(), root, "q", ent.Settings); err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			b.wantBreaker(t, "q", "closed")
		}
		ds := waiting.take()
		if len(ds) != 10 {
			t.Fatalf("%d messages after an update", len(ds))
		}
		settle(t, all[1], "q", core.Abandon, ds[:5]...)
		all[1].Select(guarded(time.Hour))
		all[1].wantBreaker(t, "q", "open")
		all[1].Select(guarded(time.Minute))
		all[1].wantBreaker(t, "q", "closed")
		all[1].Select(Selected{})
		all[1].wantBreaker(t, "q", "")
		if n := strings.Count(log.String(), "has closed"); n != 3 {
			t.Errorf("logged %d times that a breaker has closed, want 3:\n%s", n, log.String())
		}
		waiting.Close()
	})
}

// A receiver that dies with the probe does not keep the breaker half-open.
func TestAProbeWithoutAnAnswerIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(10*time.Second), func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.LockDuration = 5 * time.Minute })
		b.send(t, "q", numbered(20)...)
		in := b.receive(t, "q", core.PeekLock, 5)
		settle(t, b, "q", core.Abandon, in.take()...)
		for range 3 {
			in.AddCredit(20, core.AnyMessage)
			time.Sleep(10*time.Second + circuitLook)
			if n := len(in.take()); n != 1 {
				t.Fatalf("%d messages", n)
			}
			in.Close()
			in = b.receive(t, "q", core.PeekLock, 1)
			time.Sleep(circuitLook)
			if n := len(in.take()); n != 0 {
				t.Fatalf("%d messages before the pause has ended", n)
			}
		}
		in.Close()
	})
}

// A client of HTTP has no receiver any more when it settles the probe.
func TestAProbeMayBeAnsweredWithoutAReceiver(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(10*time.Second), func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(20)...)
		one := func(o core.Outcome, wait time.Duration, n int) {
			t.Helper()
			time.Sleep(wait)
			in := b.receive(t, "q", core.PeekLock, 1)
			ds := in.take()
			in.Close()
			if len(ds) != n {
				t.Fatalf("%d messages, want %d", len(ds), n)
			}
			settle(t, b, "q", o, ds...)
		}
		for range 5 {
			one(core.Abandon, 0, 1)
		}
		b.wantBreaker(t, "q", "open")
		one(core.Abandon, 0, 0)
		one(core.Abandon, 10*time.Second, 1)
		b.wantBreaker(t, "q", "open")
		one(core.Complete, 10*time.Second, 1)
		b.wantBreaker(t, "q", "half-open")
		for range 6 {
			one(core.Complete, 0, 1)
		}
		b.wantBreaker(t, "q", "closed")
	})
}

// While a breaker is open, a message of a session that has failed before is available at once: its session does not
// pause.
func TestAnOpenBreakerDoesNotPauseSessions(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, withBreaker(time.Hour), func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("s", 0, 10)...)
		h := b.mustAccept(t, "q", "s")
		defer h.Close()
		h.AddCredit(10, core.AnyMessage)
		ds := h.take()
		settle(t, b, "q", core.Abandon, ds[:4]...)
		settle(t, b, "q", core.Complete, ds[4])
		h.AddCredit(4, core.AnyMessage)
		again := h.take()
		settle(t, b, "q", core.Abandon, ds[5:]...)
		b.wantBreaker(t, "q", "open")
		settle(t, b, "q", core.Abandon, again...)
		_, rt, err := b.Entity(t.Context(), root, "q")
		if err != nil || len(again) != 4 || rt.Locked != 0 {
			t.Errorf("%d messages came again and %d are delayed, %v", len(again), rt.Locked, err)
		}
	})
}
