package storetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func (s *fixture) clear(p core.Partition) {
	s.Helper()
	s.wantCode("clear", p.In(s.store).Clear(s.Context()), "")
}

// wantCleared checks that the partition is empty, and stays empty as time passes.
func (s *fixture) wantCleared(what string, p core.Partition) {
	s.Helper()
	for range 2 {
		for q := range core.SubQueues {
			at := sub(p, q)
			at.Sessions = p.Sessions && q == core.Main
			stats, err := Stats(s.Context(), s.store, at)
			s.wantCode(what+": stats", err, "")
			stats.Enqueued = 0
			if stats != (core.Stats{}) {
				s.Fatalf("%s%s: stats: got %+v, want none", what, q.Suffix(), stats)
			}
			s.wantBodies(what+q.Suffix(), s.peek(at))
			s.wantTime(what+": next", s.sweep(at), time.Time{})
		}
		s.clock.Advance(48 * time.Hour)
	}
}

var clearStories = []story{
	{"a cleared queue holds nothing, whatever the state was", func(s *fixture) {
		s.main.DeadLetterExpired, s.main.DuplicateWindow = true, time.Hour
		s.sendTexts("complete", "locked", "again", "deferred", "locked deferred", "dead", "puts off")
		ds := s.lock(7)
		s.settle(ds[0], core.Complete)
		s.settle(ds[2], core.Abandon, properties(s, "k", "v"))
		s.settle(ds[3], core.Defer)
		s.settle(ds[4], core.Defer)
		s.settle(ds[5], core.DeadLetterOutcome)
		s.putOff(s.main, ds[6], wait(time.Minute))
		held := s.lockDeferred(ds[4].SequenceNumber)[0]
		s.sendTo(sub(s.main, core.Transfer), text("in transfer", destined("there")))
		s.settleAt(sub(s.main, core.Transfer), s.lockOneAt(sub(s.main, core.Transfer)), core.DeadLetterOutcome)
		s.sendTo(sub(s.main, core.Transfer), text("in transfer, too", destined("there")))
		scheduled := s.send(text("scheduled", s.after(time.Hour)))
		s.send(text("expires", ttl(time.Minute), id("x")), text("fresh", from("key")))
		dead := s.lockOneAt(s.dead())

		s.clear(s.dead()) // clears the whole partition, because Clear ignores Ref.Sub
		for what, d := range map[string]core.Delivery{"locked": ds[1], "deferred, and locked": held, "abandoned": ds[2]} {
			s.wantCode("complete what was "+what, s.trySettle(s.main, d.LockToken, core.Complete, core.Properties{}), core.LockLost)
			_, err := s.tryRenew(s.main, d.LockToken)
			s.wantCode("renew what was "+what, err, core.LockLost)
		}
		s.wantCode("complete a dead letter", s.trySettle(s.dead(), dead.LockToken, core.Complete, core.Properties{}), core.LockLost)
		_, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{ds[3].SequenceNumber}, Deferred: true})
		s.wantCode("lock what was deferred", err, core.MessageNotFound)
		s.wantCode("cancel what was scheduled", s.main.In(s.store).Cancel(s.Context(), scheduled), core.MessageNotFound)
		s.wantBodies("lock", s.lock(9))
		s.wantCleared("queue", s.main)
		s.clear(s.main)
		s.wantCleared("queue, cleared again", s.main)
	}},
	{"numbers go on in a cleared queue", func(s *fixture) {
		s.sendTexts("a", "b", "c")
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		s.clear(s.main)
		s.wantEnqueued("queue", s.main, 3)
		s.wantEnqueued("dead letters", s.dead(), 2)
		want(s, "number", s.send(text("d"))[0], number(4))
		want(s, "number of a group", s.send(text("e", ttl(time.Hour)), text("f"))[1], number(6))
		s.wantBodies("messages", s.lock(9), "d", "e", "f")
		s.clear(s.main)
		want(s, "number of a scheduled one", s.send(text("g", s.after(time.Second)))[0], number(7))
		s.clock.Advance(time.Second)
		d := s.lockOne()
		want(s, "number once due", d.SequenceNumber, number(8))
		s.settle(d, core.DeadLetterOutcome)
		want(s, "number of a dead letter", s.lockOneAt(s.dead()).SequenceNumber, number(3))
	}},
	{"a queue that never held anything can be cleared", func(s *fixture) {
		s.clear(s.main)
		s.wantCleared("queue", s.main)
		want(s, "number", s.send(text("a"))[0], number(1))
		s.wantBodies("messages", s.lock(9), "a")
	}},
	{"clearing forgets ids and the keys of moves", func(s *fixture) {
		s.main.DuplicateWindow = time.Hour
		s.send(text("a", id("1")))
		s.send(text("b", from("key")))
		s.clear(s.main)
		want(s, "number of an id that was known", s.send(text("a", id("1")))[0], number(3))
		want(s, "number of a key that was known", s.send(text("b", from("key")))[0], number(4))
		s.wantBodies("messages", s.lock(9), "a", "b")
	}},
	{"clearing forgets histories", func(s *fixture) {
		s.remember(aDay)
		s.send(text("a", id("m")))
		s.clear(s.main)
		s.wantHistory(s.main, "m")
		s.send(text("b", id("m")))
		s.wantHistory(s.main, "m", "accepted 2")
	}},
	{"a full queue has room once it is cleared", func(s *fixture) {
		s.main.MaxBytes = 3000
		s.send(text(strings.Repeat("x", 5000)))
		a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text("b")}})
		s.wantCode("append to a full queue", a[0].Err, core.QuotaExceeded)
		s.clear(s.main)
		want(s, "number", s.send(text("c"))[0], number(2))
	}},
	{"who waits for messages hears of those that come after a queue was cleared", func(s *fixture) {
		s.send(text("a"))
		d := s.lockOne()
		listen := s.bell(s.main)
		listen("append", func() { s.clear(s.main); s.sendTexts("b") })
		s.wantCode("complete", s.trySettle(s.main, d.LockToken, core.Complete, core.Properties{}), core.LockLost)
		d = s.lockOne()
		dead := s.bell(s.dead())
		dead("dead-letter", func() {
			s.clear(s.main)
			s.sendTexts("c")
			s.settle(s.lockOne(), core.DeadLetterOutcome)
		})
		s.wantCode("complete again", s.trySettle(s.main, d.LockToken, core.Complete, core.Properties{}), core.LockLost)
	}},
	{"sessions are lost with their state when a queue is cleared", withSessions(func(s *fixture) {
		l, other := s.accept("x"), s.accept("y")
		s.setState(l, []byte("state"))
		s.release(other)
		deferred := s.deferIn(l, text("deferred"))
		s.sendIn("x", "a", "b")
		s.sendIn("y", "c")
		s.send(text("d", in("z"), s.after(time.Minute)))
		token := s.lockOneIn(l).LockToken
		s.clear(s.main)
		s.wantLost("cleared", l, token, deferred)
		s.wantSessions("cleared", time.Time{}, "", 9)
		s.acceptNext("")
		s.wantCleared("queue", s.main)
		again := s.accept("x")
		s.wantState("accepted anew", again, nil)
		s.sendIn("x", "e")
		s.wantBodies("messages", s.lockIn(again, 9), "e")
		s.sendIn("y", "f")
		s.wantBodies("messages of another", s.lockIn(s.acceptNext("y"), 9), "f")
	})},
	{"who waits for sessions, or in one, is rung", withSessions(func(s *fixture) {
		listen := s.sessionBell()
		l := s.accept("x")
		listen("clear, in a session", "x", func() { s.wantBodies("arming", s.lockIn(l, 9)) }, func() { s.clear(s.main) })
		listen("append after a clear", "", func() { s.acceptNext("") }, func() {
			s.clear(s.main)
			s.sendIn("x", "a")
		})
		s.wantBodies("messages", s.lockIn(s.acceptNext("x"), 9), "a")
	})},
	{"a topic is cleared with its subscriptions", onTopic(func(p *press) {
		p.topic.DuplicateWindow, p.topic.MaxBytes = time.Hour, 60_000
		large := strings.Repeat("x", 5000)
		p.publish(p.to(text(large, id("1")), "a", "b"), p.to(text("small"), "b", "c"), p.to(text(large, ttl(time.Hour)), "c"))
		p.publish(p.to(text("later", p.after(time.Second)), "a"))
		p.publish(p.to(text("much later", p.after(time.Hour)), "a"))
		p.settleAt(p.at("b"), p.lockOneAt(p.at("b")), core.DeadLetterOutcome)
		d := p.lockOneAt(p.at("a"))
		p.clock.Advance(time.Second)
		due := p.lockOneAt(p.topic)
		full := p.to(text(large), "a", "b", "c")
		p.publish(full)
		p.publish(p.to(text(strings.Repeat("y", 5000)), "b"))
		p.publish(p.to(text(strings.Repeat("z", 60_000)), "b"))
		p.wantCode("publish to a full topic", p.tryPublish(full).Err, core.QuotaExceeded)
		before, err := Stats(p.Context(), p.store, p.topic)
		p.wantCode("stats", err, "")

		p.clear(p.topic)
		p.wantCode("complete", p.trySettle(p.at("a"), d.LockToken, core.Complete, core.Properties{}), core.LockLost)
		x := p.to(text("due"), "a")
		x.Source = due.LockToken
		p.wantCode("publish what was due", p.tryPublish(x).Err, core.LockLost)
		p.wantCopies("cleared", nil)
		for _, name := range []string{"a", "b", "c"} {
			p.wantCleared("subscription "+name, p.at(name))
		}
		p.wantCleared("topic", p.topic)

		want(p.fixture, "number", p.publish(p.to(text(large, id("1")), "a", "b"))[0], number(before.Enqueued+1))
		p.publish(p.to(text("small"), "b", "c"))
		p.wantCopies("published", map[string]string{"a": large, "b": large + "small", "c": "small"})
		p.wantEnqueued("a", p.at("a"), 3)
		p.wantEnqueued("b", p.at("b"), 7)
		p.settleAt(p.at("a"), p.lockOneAt(p.at("a")), core.Complete)
		p.wantBodies("the other copy", p.lockAt(p.at("b"), 1), large)
		number := p.publish(p.to(text("scheduled", p.after(time.Second)), "a"))[0]
		p.clock.Advance(time.Second)
		if d := p.lockOneAt(p.topic); d.SequenceNumber <= number {
			p.Fatalf("number of what is due: got %d, want more than %d", d.SequenceNumber, number)
		}
	})},
	{"a subscription cannot be cleared alone", onTopic(func(p *press) {
		p.publish(p.to(text("x"), "a"))
		p.wantCode("clear", p.at("a").In(p.store).Clear(p.Context()), core.NotAllowed)
		p.wantCopies("not cleared", map[string]string{"a": "x"})
	})},
	{"the other partitions are not cleared", func(s *fixture) {
		other := s.main
		other.Index--
		s.sendTo(other, text("a"))
		s.clear(s.main)
		s.wantBodies("messages", s.lockAt(other, 9), "a")
	}},
	{"clearing a deleted queue brings nothing back", func(s *fixture) {
		s.sendTexts("a")
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "orders"), "")
		s.clear(s.main)
		s.wantUnknown(s.main, core.NewLockToken(fixtureIndex, 1, 1))
		unknown := s.main
		unknown.Entity = "nosuch"
		s.clear(unknown)
		s.wantUnknown(unknown, core.NewLockToken(fixtureIndex, 1, 1))
	}},
	{"a queue is cleared amid senders and receivers: nothing sent before comes after", func(s *fixture) {
		var mu sync.RWMutex // held while messages of an epoch are sent
		epoch := 0
		var work sync.WaitGroup
		var settled atomic.Int64
		stop := make(chan struct{})
		end := sync.OnceFunc(func() {
			close(stop)
			work.Wait()
		})
		defer end()
		for range 3 {
			work.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					mu.RLock()
					a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text(fmt.Sprint(epoch))}})
					mu.RUnlock()
					if a[0].Err != nil {
						s.Errorf("append: %v", a[0].Err)
						return
					}
				}
			})
		}
		for range 3 {
			work.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 3}})
					if err != nil {
						s.Errorf("lock: %v", err)
						return
					}
					for _, d := range ds {
						s.main.In(s.store).Settle(s.Context(), []core.Settlement{{Token: d.LockToken, Outcome: core.Complete}}) // fails for a cleared message
						settled.Add(1)
					}
				}
			})
		}
		for range 20 {
			until := settled.Load() + 5
			eventually.True(s, "messages are settled between two clearings", func() bool { return settled.Load() >= until || s.Failed() })
			mu.Lock()
			epoch++
			mu.Unlock()
			s.clear(s.main)
			for _, d := range s.peek(s.main) {
				if body := string(d.Body.Bytes); body != fmt.Sprint(epoch) {
					s.Fatalf("a message of epoch %s is there after epoch %d has begun", body, epoch)
				}
			}
		}
		end()
		s.clear(s.main)
		s.wantCleared("queue", s.main)
	}},
}
