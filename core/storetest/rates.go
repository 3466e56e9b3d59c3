package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var rateStories = []story{
	{"a rate grants a burst, and then one at a time", func(s *fixture) {
		r := core.Rate{Every: 200 * time.Millisecond, Burst: 3}
		s.wantGrant("two of the burst", r, 2, 2)
		again := s.wantGrant("the rest of the burst", r, 9, 1)
		want(s, "again", again, s.clock.Now().Add(r.Every))
		s.clock.Advance(r.Every - time.Millisecond)
		s.wantGrant("too early", r, 1, 0)
		s.clock.Advance(time.Millisecond)
		s.wantGrant("in time", r, 9, 1)
		s.clock.Advance(time.Hour)
		s.wantGrant("after a rest, no more than the burst", r, 9, 3)
		s.clock.Advance(-24 * time.Hour)
		again = s.wantGrant("the clock was set back", r, 9, 0)
		want(s, "again", again, s.clock.Now().Add(r.Every))
	}},
	{"rates of entities and of microseconds", func(s *fixture) {
		r := core.Rate{Every: 10 * time.Microsecond, Burst: 5}
		s.wantGrant("the burst", r, 200, 5)
		s.clock.Advance(time.Millisecond)
		s.wantGrant("another burst", r, 200, 5)
		time.Sleep(5 * time.Millisecond) // grants nothing, because the store's clock stands still
		s.wantGrant("a slower rate now", core.Rate{Every: time.Second, Burst: 1}, 1, 0)
		s.main.Ref = core.Ref{Entity: s.create(newEntity("Other", "q9")).ID}
		s.wantGrant("another entity", core.Rate{Every: time.Second, Burst: 1}, 9, 1)
	}},
}

func (s *fixture) wantGrant(what string, r core.Rate, n, granted int) (again time.Time) {
	s.Helper()
	got, again, err := s.main.In(s.store).Take(s.Context(), r, n)
	if err != nil || got != granted {
		s.Errorf("%s: the rate granted %d (error %v), want %d", what, got, err, granted)
	}
	return again
}
