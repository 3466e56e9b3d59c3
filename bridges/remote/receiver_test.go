package remote

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

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
	var o ReceiverOptions
	if session != "" {
		o.Next = time.Second
	}
	r, err := c.Receiver(t.Context(), "orders", o)
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
	all, err := s.Peek(t.Context(), root, core.At("orders"), nil, 0, n)
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
		some, err := r.Take(t.Context(), 0, time.Second)
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
			if err := r.link.IssueCredit(3); err != nil { // as the next Take will, of which other messages come
				t.Fatal(err)
			}
			r.asked += 3
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

// connected is a Client of a site with a queue, and one with sessions.
func connected(t *testing.T) (*site, *Client) {
	t.Helper()
	there := newSite(t, nil)
	there.create(t, "orders", func(s *core.Settings) { s.MaxMessageSizeInKilobytes = 2048 })
	there.create(t, "sessions", func(s *core.Settings) { s.RequiresSession = true })
	c, err := Connect(t.Context(), there.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return there, c
}

func receiver(t *testing.T, c *Client, entity string, o ReceiverOptions) *Receiver {
	t.Helper()
	r, err := c.Receiver(t.Context(), entity, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// texts are the bodies of messages.
func texts(ts []Taken) string {
	var all []string
	for i := range ts {
		all = append(all, string(ts[i].Body.Bytes))
	}
	return strings.Join(all, " ")
}

func inSession(body, session string) *core.Message {
	return &core.Message{Body: core.Body{Bytes: []byte(body)}, SessionID: session}
}

func TestAReceiverAsksForNoMoreThanItIsToTake(t *testing.T) {
	t.Parallel()
	for _, o := range []ReceiverOptions{{}, {Delete: true}} {
		there, c := connected(t)
		there.send(t, "orders", inSession("a", ""), inSession("b", ""), inSession("c", ""), inSession("d", ""))
		r := receiver(t, c, "orders", o)
		var got []Taken
		for len(got) < 3 {
			some, err := r.Take(t.Context(), 3-len(got), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, some...)
		}
		if texts(got) != "a b c" {
			t.Errorf("%+v: took %q, want a b c", o, texts(got))
		}
		if !o.Delete {
			if err := errors.Join(r.Complete(t.Context(), got)...); err != nil {
				t.Error(err)
			}
		}
		if left, err := c.Peek(t.Context(), "orders", nil, 0, 10); err != nil || len(left) != 1 || string(left[0].Body.Bytes) != "d" {
			t.Errorf("%+v: left are %d messages, want d: %v", o, len(left), err)
		}
		if _, err := r.Take(t.Context(), 5, time.Minute); err != nil { // d, and credit for four
			t.Fatal(err)
		}
		there.send(t, "orders", inSession("e", ""))
		for deadline := time.Now().Add(time.Minute); o.Delete; { // until it is on its way
			if left, err := c.Peek(t.Context(), "orders", nil, 0, 10); err != nil || time.Now().After(deadline) {
				t.Fatal(len(left), err)
			} else if len(left) == 0 {
				break
			}
		}
		rest, err := r.Rest(t.Context())
		if want := "e"; err != nil || o.Delete && texts(rest) != want {
			t.Errorf("%+v: the rest is %q, want %q: %v", o, texts(rest), want, err)
		}
	}
}

func TestAReceiverHoldsTheSessionThatIsNamed(t *testing.T) {
	t.Parallel()
	there, c := connected(t)
	there.send(t, "sessions", inSession("a", "one"), inSession("b", "two"), inSession("c", "two"))
	r := receiver(t, c, "sessions", ReceiverOptions{Session: new("two"), Delete: true})
	if got := texts(take(t, r, 2)); got != "b c" || r.Session() != "two" {
		t.Errorf("session %q has %q, want b c of two", r.Session(), got)
	}
	if next := receiver(t, c, "sessions", ReceiverOptions{Next: time.Minute}); next.Session() != "one" {
		t.Errorf("the next session is %q, want one", next.Session())
	}
	if _, err := c.Receiver(t.Context(), "sessions", ReceiverOptions{Next: time.Millisecond}); !errors.Is(err, ErrNoSession) {
		t.Errorf("no session is free: got %v, want %v", err, ErrNoSession)
	}
}

// The same outcomes end deliveries and deferred messages, and those of a session.
func TestMessagesAreSettledAsTheirReceiverSays(t *testing.T) {
	t.Parallel()
	for _, entity := range []string{"orders", "sessions"} {
		for _, deferred := range []bool{false, true} {
			there, c := connected(t)
			session, o := "", ReceiverOptions{}
			if entity == "sessions" {
				session, o.Session = "s", new("s")
			}
			there.send(t, entity, inSession("completed", session), inSession("abandoned", session), inSession("dead", session), inSession("bare", session))
			r := receiver(t, c, entity, o)
			ts := take(t, r, 4)
			if deferred {
				for i := range ts {
					if err := r.link.ModifyMessage(t.Context(), ts[i].m, &goamqp.ModifyMessageOptions{UndeliverableHere: true}); err != nil {
						t.Fatal(err)
					}
					r.drop(ts[i].m)
				}
				var err error
				if ts, err = r.TakeDeferred(t.Context(), []int64{1, 2, 3, 4}); err != nil || texts(ts) != "completed abandoned dead bare" {
					t.Fatalf("deferred: %q, %v", texts(ts), err)
				}
			}
			errs := slices.Concat(r.Complete(t.Context(), ts[:1]), r.Abandon(t.Context(), ts[1:2]),
				r.DeadLetter(t.Context(), ts[2:3], "broken", "it has no price"), r.DeadLetter(t.Context(), ts[3:], "", ""))
			if err := errors.Join(errs...); err != nil || len(errs) != 4 {
				t.Errorf("%s: %v of %d outcomes", entity, err, len(errs))
			}
			left, err := c.Peek(t.Context(), entity, nil, 0, 10)
			if err != nil || len(left) != 1 || string(left[0].Body.Bytes) != "abandoned" || left[0].DeliveryCount < 1 {
				t.Errorf("%s: left are %+v, want what was abandoned: %v", entity, left, err)
			}
			dead, err := c.Peek(t.Context(), entity+core.DeadLetter.Suffix(), nil, 0, 10)
			if err != nil || len(dead) != 2 {
				t.Fatalf("%s: %d dead letters, want 2: %v", entity, len(dead), err)
			}
			reason, _ := dead[0].Properties.Get(core.PropertyDeadLetterReason)
			description, _ := dead[0].Properties.Get(core.PropertyDeadLetterDescription)
			none, given := dead[1].Properties.Get(core.PropertyDeadLetterReason)
			if reason != "broken" || description != "it has no price" || given {
				t.Errorf("%s, deferred %v: reasons %v and %v, descriptions %v", entity, deferred, reason, none, description)
			}
			if _, err := r.TakeDeferred(t.Context(), []int64{77}); err == nil {
				t.Error("a message that is not deferred was received")
			}
		}
	}
}
