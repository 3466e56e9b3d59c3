package broker

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/value"
)

// timed is a message whose body says when it is to arrive.
func timed(due time.Time) *core.Message { return text(strconv.FormatInt(due.UnixMilli(), 10)) }

// watch notes by how much what arrives is late, and completes it.
func (b *started) watch(t *testing.T, in *inbox, address string, late *lateness) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.hook = func(ds []core.Delivery) {
		for _, d := range ds {
			if err := b.Settle(context.Background(), root, core.At(address), []core.Settlement{{Token: d.LockToken}})[0]; err != nil {
				t.Error(err)
			}
			due, err := strconv.ParseInt(string(d.Body.Bytes), 10, 64)
			if err != nil {
				t.Error(err)
			}
			late.note(time.Since(time.UnixMilli(due)))
		}
	}
}

type lateness struct {
	mu    sync.Mutex
	count int
	worst time.Duration
	early bool
}

func (l *lateness) note(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.worst = max(l.worst, d)
	l.early = l.early || d < 0
}

func expiresToDeadLetters(s *core.Settings) { s.DeadLetteringOnMessageExpiration = true }

// Whatever waits for its time is delivered at that time: by a timer, not by
// somebody who looks now and then. By a fake clock, work itself takes no time.
func TestWhatIsDueIsDeliveredAtOnce(t *testing.T) {
	const messages = 200
	soon := func() time.Time { return time.Now().Add(rand.N(10 * time.Minute)).Truncate(time.Millisecond) }
	schedule := func(t *testing.T, b *started, to string) {
		for range messages {
			m := timed(soon())
			due, _ := strconv.ParseInt(string(m.Body.Bytes), 10, 64)
			m.ScheduledEnqueueTime, m.SessionID = time.UnixMilli(due), "s"
			b.send(t, to, m)
			time.Sleep(rand.N(100 * time.Millisecond))
		}
	}
	expire := func(t *testing.T, b *started, at string, least time.Duration) {
		for range messages {
			due := soon().Add(least)
			m := timed(due)
			m.TimeToLive = time.Until(due)
			b.send(t, at, m)
			time.Sleep(rand.N(100 * time.Millisecond).Truncate(time.Millisecond))
		}
	}
	for name, path := range map[string]func(t *testing.T, b *started, late *lateness){
		"a queue": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q")
			b.watch(t, b.receive(t, "q", core.PeekLock, messages), "q", late)
			schedule(t, b, "q")
		},
		"partitions": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q", partitioned)
			for range 3 {
				b.watch(t, b.receive(t, "q", core.PeekLock, messages), "q", late)
			}
			schedule(t, b, "q")
		},
		"another gateway": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q")
			other := newStarted(b.another(t), b.store, nil)
			other.watch(t, other.receive(t, "q", core.PeekLock, messages), "q", late)
			schedule(t, b, "q")
		},
		"a receiver who comes later": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q")
			schedule(t, b, "q")
			in := b.receive(t, "q", core.PeekLock, messages)
			due := in.take() // already
			late.count = len(due)
			settle(t, b, "q", core.Complete, due...)
			in.Close()
			b.watch(t, b.receive(t, "q", core.PeekLock, messages), "q", late)
		},
		"a topic": func(t *testing.T, b *started, late *lateness) {
			b.createTopic(t, "t")
			at := b.subscribe(t, "t", "s", nil)
			b.watch(t, b.receive(t, at, core.PeekLock, messages), at, late)
			schedule(t, b, "t")
		},
		"forwarding": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "c")
			b.create(t, "b", forwardTo("c"))
			b.create(t, "a", forwardTo("b"))
			b.watch(t, b.receive(t, "c", core.PeekLock, messages), "c", late)
			schedule(t, b, "a")
		},
		"a session that is held": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q", sessionful, func(s *core.Settings) { s.LockDuration = 5 * time.Minute })
			h := b.mustAccept(t, "q", "s")
			b.watch(t, h.inbox, "q", late)
			h.AddCredit(messages, core.AnyMessage)
			go func() {
				for t.Context().Err() == nil {
					_, _ = h.Renew(t.Context())
					select {
					case <-time.After(time.Minute):
					case <-t.Context().Done():
					}
				}
			}()
			schedule(t, b, "q")
		},
		"the next session": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q", sessionful)
			go func() {
				for t.Context().Err() == nil {
					h, err := b.accept(t.Context(), "q", "", core.PeekLock)
					if err != nil {
						continue // nothing came for a minute
					}
					b.watch(t, h.inbox, "q", late)
					h.AddCredit(1, core.AnyMessage)
					time.Sleep(time.Microsecond)
					h.Close()
				}
			}()
			schedule(t, b, "q")
		},
		"retries": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q")
			in := b.receive(t, "q", core.PeekLock, 2*messages)
			for range messages {
				due := soon()
				b.send(t, "q", timed(due))
				if err := b.abandonWith(t, "q", asked(t, core.PropertyRetryAt, value.TimestampOf(due)), in.take()...); err != nil {
					t.Error(err)
				}
			}
			b.watch(t, in, "q", late)
		},
		"locks that end": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q", func(s *core.Settings) { s.LockDuration = 20 * time.Second })
			first := b.receive(t, "q", core.PeekLock, messages)
			for range messages {
				b.send(t, "q", timed(time.Now().Add(20*time.Second)))
				time.Sleep(rand.N(50 * time.Millisecond).Truncate(time.Millisecond))
			}
			synctest.Wait() // it has them all
			first.Close()
			b.watch(t, b.receive(t, "q", core.PeekLock, messages), "q", late)
		},
		"dead letters of a subscription": func(t *testing.T, b *started, late *lateness) {
			b.createTopic(t, "t")
			at := b.subscribe(t, "t", "s", nil, expiresToDeadLetters) + "/$DeadLetterQueue"
			b.watch(t, b.receive(t, at, core.PeekLock, messages), at, late)
			expire(t, b, "t", delivery.MaxSweepWait)
		},
		"dead letters that are forwarded": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "graves")
			b.create(t, "q", expiresToDeadLetters, forwardDead("graves"))
			b.watch(t, b.receive(t, "graves", core.PeekLock, messages), "graves", late)
			expire(t, b, "q", 0)
		},
		"dead letters at another gateway": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q", expiresToDeadLetters)
			other := newStarted(b.another(t), b.store, nil)
			other.watch(t, other.receive(t, "q/$DeadLetterQueue", core.PeekLock, messages), "q/$DeadLetterQueue", late)
			expire(t, b, "q", delivery.MaxSweepWait)
		},
		"dead letters": func(t *testing.T, b *started, late *lateness) {
			b.create(t, "q", expiresToDeadLetters)
			b.watch(t, b.receive(t, "q/$DeadLetterQueue", core.PeekLock, messages), "q/$DeadLetterQueue", late)
			expire(t, b, "q", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *started) {
				var late lateness
				path(t, b, &late)
				time.Sleep(15 * time.Minute)
				synctest.Wait()
				late.mu.Lock()
				defer late.mu.Unlock()
				t.Logf("%d messages, late by %v at worst", late.count, late.worst)
				if late.count < messages || late.early || late.worst > time.Millisecond {
					t.Errorf("got %d messages (some early: %v), late by %v at worst; want %d, by no more than a millisecond", late.count, late.early, late.worst, messages)
				}
			})
		})
	}
}
