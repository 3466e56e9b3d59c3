package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

var browseStories = []story{
	{"peek in a session shows its messages alone, in any state", withSessions(func(s *fixture) {
		l := s.accept("X")
		var want []string
		for i := range 30 {
			s.sendIn("other", "o")
			s.sendIn("x", fmt.Sprint("x", i))
			want = append(want, fmt.Sprint("x", i))
		}
		s.send(text("later", in("x"), s.after(time.Hour)), text("elsewhere", in("y"), s.after(time.Hour)))
		ds := s.lockIn(l, 3)
		s.settle(ds[1], core.Defer)
		peek := func(from int64, limit int) []core.Delivery {
			s.Helper()
			ds, err := s.main.In(s.store).Peek(s.Context(), core.PeekRequest{From: from, Max: limit, Session: core.KeyOfSession("x")})
			s.wantCode("peek in a session", err, "")
			return ds
		}
		all := peek(0, 99)
		s.wantBodies("all", all, append(want, "later")...)
		s.wantTime("locked until", all[0].LockedUntil, l.Until)
		for i, state := range []core.State{core.Active, core.Deferred, core.Active, core.Active} {
			if all[i].State != state {
				s.Errorf("state of the peeked message with index %d: got %v, want %v", i, all[i].State, state)
			}
		}
		s.wantBodies("some", peek(3, 4), want[1:5]...)
		s.wantBodies("none", peek(0, 0))
		_, last := core.SplitSequenceNumber(all[30].SequenceNumber)
		s.wantBodies("behind the last", peek(last+1, 9))
	})},
	{"peek shows all messages by number, whatever their state", func(s *fixture) {
		s.deferOne(text("deferred"))
		s.sendTexts("locked", "again", "fresh")
		s.send(text("scheduled", s.after(time.Hour)))
		s.settle(s.lock(2)[1], core.Abandon)
		ds := s.peek(s.main)
		s.wantBodies("peeked", ds, "deferred", "locked", "again", "fresh", "scheduled")
		states := []core.State{core.Deferred, core.Active, core.Active, core.Active, core.Scheduled}
		counts := []uint32{1, 0, 1, 0, 0}
		for i, d := range ds {
			want(s, "number", d.SequenceNumber, number(int64(i+1)))
			want(s, "state", d.State, states[i])
			want(s, "delivery count", d.DeliveryCount, counts[i])
			want(s, "token", d.LockToken, core.LockToken{})
			if i != 1 {
				s.wantTime("locked until", d.LockedUntil, time.Time{})
			}
		}
		s.wantTime("locked until", ds[1].LockedUntil, s.clock.Now().Add(s.main.LockDuration))
	}},
	{"peek shows until when deferred messages and those of sessions are locked", func(s *fixture) {
		n := s.deferOne(text("deferred"))
		s.lockDeferred(n)
		end := s.clock.Now().Add(s.main.LockDuration)
		s.wantTime("deferred, locked until", s.peek(s.main)[0].LockedUntil, end)
		s.clock.Advance(s.main.LockDuration)
		s.wantTime("afterwards", s.peek(s.main)[0].LockedUntil, time.Time{})
	}},
	{"peek shows the end of the session's lock with its messages", withSessions(func(s *fixture) {
		s.sendIn("x", "a", "b")
		s.sendIn("y", "c")
		s.lockIn(s.accept("x"), 1)
		ds := s.peek(s.main)
		s.wantTime("under lock", ds[0].LockedUntil, s.clock.Now().Add(s.main.LockDuration))
		s.wantTime("of a held session", ds[1].LockedUntil, time.Time{})
		s.wantTime("of another session", ds[2].LockedUntil, time.Time{})
	})},
	{"peek begins at a position and stops at a limit", func(s *fixture) {
		s.sendTexts("a", "b", "c", "d")
		s.settle(s.lock(2)[1], core.Complete)
		for _, c := range []struct {
			from int64
			max  int
			want []string
		}{
			{-5, 9, []string{"a", "c", "d"}},
			{0, 2, []string{"a", "c"}},
			{1, 1, []string{"a"}},
			{2, 9, []string{"c", "d"}},
			{4, 9, []string{"d"}},
			{5, 9, nil},
			{1 << 47, 9, nil},
			{1, 0, nil},
		} {
			ds, err := s.main.In(s.store).Peek(s.Context(), core.PeekRequest{From: c.from, Max: c.max})
			s.wantCode("peek", err, "")
			s.wantBodies("peeked", ds, c.want...)
		}
	}},
	{"peek shows the messages in one state", func(s *fixture) {
		n := s.deferOne(text("deferred"))
		s.deferOne(text("deferred too"))
		s.send(text("first", s.after(2*time.Hour)), text("active"), text("second", s.after(time.Hour)))
		for range 30 {
			s.send(text("behind"))
		}
		s.send(text("third", s.after(3*time.Hour)))
		peek := func(state core.State, from int64, max int) []core.Delivery {
			s.Helper()
			ds, err := s.main.In(s.store).Peek(s.Context(), core.PeekRequest{From: from, Max: max, State: new(state)})
			s.wantCode("peek", err, "")
			for _, d := range ds {
				want(s, "state", d.State, state)
			}
			return ds
		}
		s.wantBodies("scheduled", peek(core.Scheduled, 0, 9), "first", "second", "third")
		s.wantBodies("scheduled, two", peek(core.Scheduled, 1, 2), "first", "second")
		s.wantBodies("scheduled, none", peek(core.Scheduled, 1, 0))
		s.wantBodies("scheduled, from", peek(core.Scheduled, 4, 9), "second", "third")
		s.wantBodies("active", peek(core.Active, -1, 2), "active", "behind")
		s.lockDeferred(n)
		ds := peek(core.Deferred, 0, 9)
		s.wantBodies("deferred", ds, "deferred", "deferred too")
		s.wantTime("locked until", ds[0].LockedUntil, s.clock.Now().Add(s.main.LockDuration))
		s.clock.Advance(time.Hour)
		s.wantBodies("scheduled, later", peek(core.Scheduled, 0, 9), "first", "third")
		want(s, "active, later", len(peek(core.Active, 0, 99)), 32)
	}},
	{"peek changes nothing", func(s *fixture) {
		s.sendTexts("a")
		s.peek(s.main)
		s.wantStats("after peek", s.main, core.Stats{Ready: 1})
		want(s, "delivery count", s.lockOne().DeliveryCount, 0)
	}},
	{"peek shows changed properties", func(s *fixture) {
		s.sendTexts("a")
		s.settle(s.lockOne(), core.Abandon, properties(s, "x", "1"))
		x, _ := s.peek(s.main)[0].Properties.Get("x")
		want(s, "property", x, any("1"))
	}},
	{"stats count messages by where they stand", func(s *fixture) {
		s.deferOne(text("deferred"))
		n := s.deferOne(text("deferred and locked"))
		s.lockDeferred(n)
		s.sendTexts("dead", "locked", "again", "fresh")
		s.send(text("scheduled", s.after(time.Hour)))
		ds := s.lock(3)
		s.settle(ds[0], core.DeadLetterOutcome)
		s.settle(ds[2], core.Abandon)
		s.wantStats("main", s.main, core.Stats{Ready: 2, Locked: 1, Deferred: 2, Scheduled: 1})
		s.wantStats("dead letters", s.dead(), core.Stats{Ready: 1})
	}},
	{"stats count all that has ever come, as it got its number", func(s *fixture) {
		s.wantEnqueued("nothing yet", s.main, 0)
		s.main.DuplicateWindow = time.Minute
		s.sendTexts("a", "b", "c")
		s.send(text("d", id("1")), text("d", id("1")))
		s.wantEnqueued("without the duplicate", s.main, 4)
		for _, d := range s.lock(9) {
			s.settle(d, core.Complete)
		}
		s.wantEnqueued("completed", s.main, 4)
		s.send(text("later", s.after(time.Minute)))
		s.wantEnqueued("scheduled", s.main, 5)
		s.clock.Advance(time.Minute)
		s.wantEnqueued("and due", s.main, 6)
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		s.wantEnqueued("dead letters", s.dead(), 1)
	}},
	{"stats count what was published, and its copies", onTopic(func(p *press) {
		p.publish(p.to(text("1"), "a", "b"), p.to(text("2"), "a"), p.to(text("3")))
		p.wantEnqueued("the topic", p.topic, 3)
		p.wantEnqueued("copies", p.at("a"), 2)
		p.wantEnqueued("copies", p.at("b"), 1)
	})},
	{"stats of several partitions are those of each", onTopic(func(p *press) {
		other := p.main
		other.Entity = p.create(newEntity("others", "q9")).ID
		gone := p.main
		gone.Entity = p.create(newEntity("gone", "q8")).ID
		p.sendTo(gone, text("g"))
		p.deleteEntity("gone")
		p.sendTo(other, text("1"), text("2"), text("expires", ttl(time.Minute)), text("later", p.after(time.Hour)))
		p.settleAt(other, p.lockAt(other, 1)[0], core.DeadLetterOutcome)
		p.publish(p.to(text("3"), "a", "b"), p.to(text("4"), "a"))
		p.clock.Advance(time.Minute) // one message expires
		ps := []core.Partition{other, p.at("a"), gone, sub(other, core.DeadLetter), p.topic, p.at("b"), other, sub(p.topic, core.Transfer)}
		answers := p.store.StatsOf(p.Context(), ps)
		want(p.fixture, "answers", len(answers), len(ps))
		for i, at := range ps {
			alone, err := Stats(p.Context(), p.store, at)
			p.wantCode("stats", err, "")
			p.wantCode("stats of several", answers[i].Err, "")
			want(p.fixture, "stats of several", answers[i].Stats, alone)
		}
		want(p.fixture, "ready", answers[0].Stats.Ready, 1)
		want(p.fixture, "dead letters", answers[3].Stats.Ready, 1)
		want(p.fixture, "copies", answers[1].Stats.Ready, 2)
		want(p.fixture, "stats of none", len(p.store.StatsOf(p.Context(), nil)), 0)
	})},
	{"a purge removes what can be received, oldest first, and nothing else", func(s *fixture) {
		s.wantPurge(s.main, 10, 0)
		s.deferOne(text("deferred"))
		s.sendTexts("locked", "again", "puts off")
		ds := s.lock(3)
		s.settle(ds[1], core.Abandon, properties(s, "k", "v"))
		s.putOff(s.main, ds[2], wait(time.Hour))
		s.send(text("scheduled", s.after(time.Hour)))
		s.send(text("expires", ttl(10*time.Second)), text("lives", ttl(time.Hour)), text("old"), text("young"))
		s.wantPurge(s.main, 0, 0)
		s.clock.Advance(10 * time.Second)
		s.wantPurge(s.main, 2, 2) // "again" and "lives"
		s.wantBodies("left", s.peek(s.main), "deferred", "locked", "puts off", "scheduled", "old", "young")
		s.wantBodies("locked", s.lock(1), "old")
		s.wantPurge(s.main, 10, 1)
		s.wantPurge(s.main, 10, 0)
		s.settle(ds[0], core.Complete)
		s.wantStats("then", s.main, core.Stats{Locked: 2, Deferred: 1, Scheduled: 1})
		s.clock.Advance(time.Hour)
		s.wantBodies("later", s.lock(9), "puts off", "old", "scheduled")
	}},
	{"a queue is purged, however much there is, and its numbers go on", func(s *fixture) {
		const many = 2500
		for _, kept := range []bool{false, true} {
			group := make([]*core.Message, many)
			for i := range group {
				group[i] = text("x", ttl(time.Hour))
			}
			last := s.send(group...)[many-1]
			s.settle(s.lockOne(), core.Abandon)
			left := many
			if kept {
				s.lock(1)
				left--
			}
			s.wantPurge(s.main, 5, 5)
			s.wantPurge(s.main, math.MaxInt, left-5)
			s.wantStats("purged", s.main, core.Stats{Locked: int64(many - left)})
			want(s, "next number", s.send(text("next"))[0], last+1)
			s.wantBodies("next", s.lock(1), "next")
			s.clock.Advance(2 * time.Hour)
			s.clear(s.main)
		}
	}},
	{"dead letters and copies are purged, sessions are not", onTopic(func(p *press) {
		p.sendTo(p.main, text("dead"))
		p.settleAt(p.main, p.lockOneAt(p.main), core.DeadLetterOutcome)
		p.wantPurge(p.main, 9, 0)
		p.wantPurge(p.dead(), 9, 1)
		big := text(string(make([]byte, 50_000)))
		p.publish(p.to(big, "a", "b"))
		p.publish(p.to(big, "a"))
		p.wantPurge(p.at("a"), 9, 2)
		p.wantPurge(p.at("b"), 9, 1)
		if got := p.stats(p.topic).Bytes; got > 20_000 {
			p.Errorf("size of a topic whose subscriptions were purged: got %d bytes, want at most 20000", got)
		}
		inSessions := p.main
		inSessions.Sessions = true
		_, err := inSessions.In(p.store).Purge(p.Context(), 9)
		p.wantCode("purge where messages have sessions", err, core.NotAllowed)
		p.deleteEntity("orders")
		p.wantPurge(p.main, 9, 0)
	})},
	{"bytes grow and shrink with the messages", func(s *fixture) {
		bytes := func() int64 {
			s.Helper()
			return s.stats(s.main).Bytes
		}
		s.send(text(string(make([]byte, 50_000))))
		if got := bytes(); got < 25_000 || got > 200_000 {
			s.Fatalf("bytes of one message of 50000: got %d", got)
		}
		s.settle(s.lockOne(), core.Complete)
		if got := bytes(); got > 10_000 {
			s.Fatalf("bytes of an empty partition: got %d", got)
		}
	}},
	{"the store's clock is the one given", func(s *fixture) {
		s.wantTime("now", s.store.Now(), s.clock.Now())
		s.clock.Advance(time.Hour)
		s.wantTime("now", s.store.Now(), s.clock.Now())
	}},
	{"a view has its own time, forth and back", func(s *fixture) {
		ahead := time.Duration(0)
		view := s.store.WithTime(func(now time.Time) time.Time { return now.Add(ahead) })
		s.sendTexts("a", "b")
		s.send(text("short", ttl(time.Hour)))
		s.send(text("later", s.after(2*time.Hour)))
		first := s.lockOne()
		ahead = 3 * time.Hour
		s.wantTime("now", view.Now(), s.clock.Now().Add(ahead))
		s.wantTime("the store's now", s.store.Now(), s.clock.Now())
		ds, _, err := s.main.In(view).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
		s.wantCode("lock", err, "")
		s.wantBodies("locked", ds, "a", "b", "later")
		want(s, "delivery count", ds[0].DeliveryCount, 1)
		s.wantTime("locked until", ds[0].LockedUntil, view.Now().Add(lockDuration))
		s.wantCode("settle with the first lock", s.main.In(view).Settle(s.Context(), []core.Settlement{{Token: first.LockToken}})[0], core.LockLost)
		ahead = -time.Hour
		ds, _, err = s.main.In(view).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
		s.wantCode("lock after the time was set back", err, "")
		s.wantBodies("locked after the time was set back", ds)
		a := s.main.In(view).Append(s.Context(), [][]*core.Message{{text("c")}})
		s.wantCode("append", a[0].Err, "")
		found, _, err := s.main.In(view).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
		s.wantCode("lock", err, "")
		s.wantBodies("locked", found, "c")
		s.wantTime("enqueued", found[0].EnqueuedTime, view.Now())
		ahead = 4 * time.Hour
		ds, _, err = s.main.In(view).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 9}})
		s.wantCode("lock", err, "")
		s.wantBodies("locked", ds, "a", "b", "later", "c")
	}},
	{"a store that works says so, and what it is", func(s *fixture) {
		s.wantCode("probe", s.store.Probe(s.Context()), "")
		if about := s.store.About(s.Context()); about.Engine == "" {
			s.Fatalf("about: got %+v, want an engine", about)
		}
	}},
}

const bellTimeout = eventually.Bound

// bell returns a function that finds no message in p, calls act, and waits for a notification.
func (s *fixture) bell(p core.Partition) (listen func(what string, act func())) {
	rung := make(chan struct{}, 1)
	stop := p.In(s.store).Watch(core.WakeFunc(func(core.SessionKey) {
		select {
		case rung <- struct{}{}:
		default:
		}
	}))
	s.Cleanup(stop)
	return func(what string, act func()) {
		s.Helper()
		s.wantBodies("arming: "+what, s.lockAt(p, 9))
		for len(rung) > 0 {
			<-rung
		}
		act()
		select {
		case <-rung:
		case <-time.After(bellTimeout):
			s.Fatalf("%s: nobody rang", what)
		}
	}
}

// taker is a Watcher that accepts all messages that are handed over. The engine calls Reserve and
// HandOver only during calls of the test.
type taker struct {
	credit, reserved int
	bytes            int64 // 0: no limit
	taken            []core.Delivery
}

func (w *taker) Wake(core.SessionKey) {}

func (w *taker) Reserve() core.Most {
	w.reserved = w.credit
	return core.Most{Messages: w.credit, Bytes: w.bytes}
}

func (w *taker) HandOver(ds []core.Delivery, _ time.Time, _ bool, err error) {
	if size := int64(core.SizeOf(ds)); err != nil || len(ds) > w.reserved || w.bytes > 0 && size > w.bytes && len(ds) > 1 {
		panic(fmt.Sprintf("%d messages of %d that were reserved, %d bytes of %d, %v", len(ds), w.reserved, size, w.bytes, err))
	}
	w.reserved, w.taken = 0, append(w.taken, ds...)
}

var bellStories = []story{
	{"the bell rings when messages become available", func(s *fixture) {
		listen := s.bell(s.main)
		listen("append", func() { s.sendTexts("a") })
		d := s.lockOne()
		listen("abandon", func() { s.settle(d, core.Abandon) })
		d = s.lockOne()
		listen("release", func() { s.settle(d, core.Release) })
		s.lockOne()
		listen("the lock's end", func() { s.clock.Advance(lockDuration); s.sweep(s.main) })
		s.settle(s.lockOne(), core.Complete)
		listen("schedule, which lock calls before it did not tell of", func() { s.send(text("b", s.after(time.Second))) })
		listen("activation", func() { s.clock.Advance(time.Second); s.sweep(s.main) })
	}},
	{"the bell of the dead letters rings when a message dies", func(s *fixture) {
		s.main.DeadLetterExpired, s.main.MaxDeliveryCount = true, 1
		listen := s.bell(s.dead())
		empty := func() { s.settleAt(s.dead(), s.lockOneAt(s.dead()), core.Complete) }
		s.sendTexts("a", "b")
		ds := s.lock(2)
		listen("dead-letter", func() { s.settle(ds[0], core.DeadLetterOutcome) })
		empty()
		listen("too many deliveries", func() { s.settle(ds[1], core.Abandon) })
		empty()
		s.send(text("c", ttl(time.Second)))
		listen("expiry", func() { s.clock.Advance(time.Second); s.sweep(s.main) })
		empty()
		s.sendTexts("d")
		d := s.lockOneAt(s.main)
		s.settle(d, core.DeadLetterOutcome)
		d = s.lockOneAt(s.dead())
		listen("abandoned dead letter", func() { s.settleAt(s.dead(), d, core.Abandon) })
	}},
	{"what is handed over and what is locked are all messages, once and in order", func(s *fixture) {
		w := &taker{}
		stop := s.main.In(s.store).Watch(w)
		s.Cleanup(stop)
		var want, got []string
		take := func(ds []core.Delivery) {
			for i := range ds {
				got = append(got, string(ds[i].Body.Bytes))
				s.settle(ds[i], core.Complete)
			}
		}
		for i := range 60 {
			var group []string
			for j := range 1 + i%4 {
				group = append(group, fmt.Sprint(i, ".", j, strings.Repeat("x", i*j*37%400)))
			}
			want = append(want, group...)
			w.credit, w.bytes = i%5, int64(i*97%700) // without credit, the receiver is busy
			messages := make([]*core.Message, len(group))
			for j, body := range group {
				messages[j] = text(body)
				if i%2 == 1 {
					messages[j].TimeToLive = time.Hour
				}
			}
			s.send(messages...)
			take(w.taken)
			w.taken = nil
			if i%3 == 0 {
				w.credit = 0
				take(s.lock(len(want)))
			}
		}
		take(s.lock(len(want)))
		if !slices.Equal(got, want) {
			s.Errorf("locked messages: got %q, want %q", got, want)
		}
		if w.reserved != 0 {
			s.Errorf("%d messages are still reserved", w.reserved)
		}
	}},
	{"several watchers hear the bell, until they stop", func(s *fixture) {
		first, second := s.bell(s.main), s.bell(s.main)
		stop := s.main.In(s.store).Watch(core.WakeFunc(func(core.SessionKey) { s.Error("a watcher was woken after it had been stopped") }))
		stop()
		stop()
		first("append", func() { second("append", func() { s.sendTexts("a") }) })
	}},
}
