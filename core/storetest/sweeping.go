package storetest

import (
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// masses is more messages than one step of a sweep processes.
const masses = 1300

func (s *fixture) sendMany(change ...func(*core.Message)) (numbers []int64) {
	s.Helper()
	for i := 0; i < masses; i += 100 {
		group := make([]*core.Message, 100)
		for k := range group {
			group[k] = text(fmt.Sprint("many ", i+k))
			for _, f := range change {
				f(group[k])
			}
		}
		numbers = append(numbers, s.send(group...)...)
	}
	return numbers
}

func (s *fixture) lockAll(p core.Partition) (all []core.Delivery) {
	s.Helper()
	for {
		ds, next, err := p.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 400}})
		s.wantCode("lock", err, "")
		all = append(all, ds...)
		if len(ds) == 0 && (next.IsZero() || next.After(s.store.Now())) {
			return all
		}
	}
}

func (s *fixture) wantInOrder(what string, ds []core.Delivery) {
	s.Helper()
	want(s, what, len(ds), masses)
	for i := range ds {
		want(s, what, string(ds[i].Body.Bytes), fmt.Sprint("many ", i))
	}
}

var sweepStories = []story{
	{"many messages that expire at once: none is delivered, and sends and others go on", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.sendMany(func(m *core.Message) { m.TimeToLive = time.Second })
		s.sendTexts("first")
		s.clock.Advance(time.Second)
		s.sendTexts("second")
		s.wantBodies("after they have expired", s.lockAll(s.main), "first", "second")
		s.wantInOrder("dead letters", s.lockAll(s.dead()))
	}},
	{"many messages that expire at once: their dead letters are received first", func(s *fixture) {
		s.main.DeadLetterExpired = true
		s.sendMany(func(m *core.Message) { m.TimeToLive = time.Second })
		s.clock.Advance(time.Second)
		s.wantInOrder("dead letters", s.lockAll(s.dead()))
	}},
	{"many messages that expire at once: none is peeked at or counted", func(s *fixture) {
		s.sendMany(func(m *core.Message) { m.TimeToLive = time.Second })
		s.sendTexts("left")
		s.clock.Advance(time.Second)
		s.wantBodies("peeked at", s.peek(s.main), "left")
		s.wantStats("counted", s.main, core.Stats{Ready: 1})
	}},
	{"many locks that expire at once: none can be settled or renewed any more", func(s *fixture) {
		s.sendMany()
		ds := s.lockAll(s.main)
		s.wantInOrder("locked", ds)
		s.clock.Advance(s.main.LockDuration)
		last := ds[masses-1].LockToken
		s.wantCode("settle", s.trySettle(s.main, last, core.Complete, core.Properties{}), core.LockLost)
		_, err := s.tryRenew(s.main, ds[masses-2].LockToken)
		s.wantCode("renew", err, core.LockLost)
		again := s.lockAll(s.main)
		s.wantInOrder("locked again", again)
		for i := range again {
			want(s, "delivery count", again[i].DeliveryCount, 1)
		}
	}},
	{"many schedules that are due at once: all messages become available in order", func(s *fixture) {
		at := s.after(time.Minute)
		s.sendMany(at)
		s.clock.Advance(time.Minute)
		if next := s.sweep(s.main); !next.IsZero() {
			s.Errorf("time of the next sweep: got %v, want none", next)
		}
		s.wantInOrder("activated", s.lockAll(s.main))
	}},
}
