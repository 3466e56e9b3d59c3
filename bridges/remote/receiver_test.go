package remote

import (
	"errors"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

const lockDuration = 5 * time.Second

// receiverAt is a Receiver, with or without a session, that renews all the time, from a queue with
// messages whose locks end by the clock.
func receiverAt(t *testing.T, clock *storetest.Clock, session string) (*site, *Receiver) {
	t.Helper()
	there := newSiteAt(t, nil, clock.Now)
	there.create(t, "orders", func(s *core.Settings) {
		s.LockDuration, s.RequiresSession = lockDuration, session != ""
	})
	c, err := Connect(t.Context(), there.options(func(o *Options) { o.renewal = time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	there.sendTo(t, session, 0, 3)
	var r *Receiver
	if session == "" {
		r, err = c.Receiver(t.Context(), "orders", 0)
	} else {
		r, err = c.NextSession(t.Context(), "orders", time.Second, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if r.Session() != session {
		t.Errorf("the session is %q, want %q", r.Session(), session)
	}
	return there, r
}

func (s *site) sendTo(t *testing.T, session string, from, n int) {
	t.Helper()
	ms := numbered(from, n)
	for _, m := range ms {
		m.SessionID = session
	}
	s.send(t, "orders", ms...)
}

// lockedUntil is when the first lock of n messages, or that of their session, ends; zero: not all are locked.
func (s *site) lockedUntil(t *testing.T, session string, n int) (until time.Time) {
	t.Helper()
	if session != "" {
		all, err := s.Sessions(t.Context(), "orders", 0, 10)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0].LockedUntil
	}
	all, err := s.Peek(t.Context(), root, "orders", 0, n)
	if err != nil || len(all) != n {
		t.Fatal(len(all), err)
	}
	for i, d := range all {
		if i == 0 || d.LockedUntil.Before(until) {
			until = d.LockedUntil
		}
	}
	return until
}

// take takes messages until there are n.
func take(t *testing.T, r *Receiver, n int) (all []Taken) {
	t.Helper()
	for end := time.Now().Add(eventually.Bound); len(all) < n; {
		some, err := r.Take(t.Context(), time.Second)
		if err != nil || time.Now().After(end) {
			t.Fatalf("got %d messages, want %d: %v", len(all), n, err)
		}
		all = append(all, some...)
	}
	return all
}

func TestAReceiverRenewsTheLocksOfWhatItHas(t *testing.T) {
	t.Parallel()
	for name, session := range map[string]string{"messages": "", "a session": "s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			there, r := receiverAt(t, clock, session)
			taken := take(t, r, 3)
			if err := r.link.IssueCredit(r.credit); err != nil { // as the next Take will, of which other messages come
				t.Fatal(err)
			}
			r.credit = 0
			there.sendTo(t, session, 3, 2)
			for range 5 {
				clock.Advance(lockDuration - time.Second)
				eventually.True(t, "the locks are renewed", func() bool {
					return there.lockedUntil(t, session, 5).Equal(clock.Now().Add(lockDuration))
				})
			}
			taken = append(taken, take(t, r, 2)...)
			for i, err := range r.Complete(t.Context(), taken) {
				if err != nil || taken[i].DeliveryCount != 0 {
					t.Errorf("%s: %v; it was delivered %d times before", taken[i].Body.Bytes, err, taken[i].DeliveryCount)
				}
			}
			there.empties(t, "orders")
		})
	}
}

func TestAReceiverTellsThatALockIsLost(t *testing.T) {
	t.Parallel()
	for name, session := range map[string]string{"of a message": "", "of a session": "s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			_, r := receiverAt(t, clock, session)
			taken := take(t, r, 3)
			clock.Advance(2 * lockDuration)
			for i, err := range r.Complete(t.Context(), taken) {
				if !errors.Is(err, ErrLockLost) {
					t.Errorf("message %d: got %v, want %v", i, err, ErrLockLost)
				}
			}
		})
	}
}
