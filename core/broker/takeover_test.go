package broker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// accepting opens a session as o says, and keeps what it delivers.
func accepting(ctx context.Context, b *Broker, o core.SessionOptions) (*holder, error) {
	in := &inbox{}
	o.Deliver = in.deliver
	o.Closed = func(err error) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.closed = append(in.closed, err)
	}
	s, err := b.AcceptSession(ctx, root, core.At("q"), o)
	if err != nil {
		return nil, err
	}
	in.Receiver = s
	return &holder{in, s}, nil
}

func mustShare(t *testing.T, b *Broker, o core.SessionOptions) *holder {
	t.Helper()
	h, err := accepting(t.Context(), b, o)
	if err != nil {
		t.Fatalf("accept %+v: %v", o, err)
	}
	return h
}

// under settles in the session that h holds, or held.
func under(t *testing.T, b *Broker, h *holder, o core.Outcome, d core.Delivery) error {
	t.Helper()
	l := h.Lock()
	return b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken, Outcome: o, Session: &l}})[0]
}

func TestSessionIsTakenOver(t *testing.T) {
	for name, other := range map[string]func(t *testing.T, b *started) *Broker{
		"here":               func(_ *testing.T, b *started) *Broker { return b.Broker },
		"at another gateway": func(t *testing.T, b *started) *Broker { return b.another(t) },
	} {
		for _, credit := range []int{2, 10} { // without and with some left, with which the former holder would look
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *started) {
					b.create(t, "q", sessionful)
					b.send(t, "q", of("a", 0, 2)...)
					first := mustShare(t, b.Broker, core.SessionOptions{ID: "a", Sharing: core.NonExclusive})
					first.AddCredit(credit, core.AnyMessage)
					ds := first.take()
					if bodies(ds) != "a/0 a/1" {
						t.Fatalf("got %s", bodies(ds))
					}
					b.send(t, "q", of("b", 0, 1)...)
					time.Sleep(10 * time.Second)
					lock := first.Lock()
					second := mustShare(t, other(t, b), core.SessionOptions{ID: "a", Sharing: core.NonExclusive, TakeOver: lock.Token()})
					if l := second.Lock(); l.Token() != lock.Token() || !second.LockedUntil().Equal(b.store.Now().Add(time.Minute)) {
						t.Errorf("got token %v until %v, want %v", l.Token(), second.LockedUntil(), lock.Token())
					}
					synctest.Wait()
					if got := first.closures(); len(got) != 1 || !errors.Is(got[0], core.SessionLockLost) {
						t.Errorf("the first is closed with %v, want %v at once", got, core.SessionLockLost)
					}
					if err := under(t, b.Broker, first, core.Complete, ds[0]); !errors.Is(err, core.SessionLockLost) {
						t.Errorf("settled by the first: got %v, want %v", err, core.SessionLockLost)
					}
					if _, err := first.Renew(t.Context()); !errors.Is(err, core.SessionLockLost) {
						t.Errorf("renewed by the first: got %v, want %v", err, core.SessionLockLost)
					}
					first.Close() // says nothing of the new holder's lock
					synctest.Wait()

					b.send(t, "q", of("a", 2, 2)...)
					second.AddCredit(5, core.AnyMessage)
					if got := bodies(second.take()); got != "a/2 a/3" {
						t.Errorf("the second gets %s, want a/2 a/3", got)
					}
					if err := under(t, b.Broker, second, core.Complete, ds[0]); err != nil {
						t.Errorf("settled by the second: %v", err)
					}
					if err := under(t, b.Broker, second, core.Complete, ds[0]); !errors.Is(err, core.LockLost) {
						t.Errorf("settled twice: got %v, want %v", err, core.LockLost)
					}
					if err := under(t, b.Broker, second, core.Abandon, ds[1]); err != nil {
						t.Errorf("abandoned by the second: %v", err)
					}
					if got := second.take(); bodies(got) != "a/1" || got[0].DeliveryCount != 1 {
						t.Errorf("after the abandon: got %v, want a/1", got)
					}
				})
			})
		}
	}
}

func TestSessionIsNotTakenOverWithoutItsToken(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		shared := mustShare(t, b.Broker, core.SessionOptions{ID: "a", Sharing: core.NonExclusive})
		own := mustShare(t, b.Broker, core.SessionOptions{ID: "b"})
		l, x := shared.Lock(), own.Lock()
		if !x.Token().IsZero() {
			t.Errorf("an exclusive lock has the token %v", x.Token())
		}
		for what, c := range map[string]struct {
			o    core.SessionOptions
			want core.Code
		}{
			"the token of another":     {core.SessionOptions{ID: "b", TakeOver: l.Token()}, core.SessionLocked},
			"a token of nothing":       {core.SessionOptions{ID: "a", TakeOver: core.LockToken{1}}, core.SessionLocked},
			"no token":                 {core.SessionOptions{ID: "a", Sharing: core.NonExclusive}, core.SessionLocked},
			"a session without a lock": {core.SessionOptions{ID: "c", TakeOver: l.Token()}, core.SessionLockLost},
			"the next session":         {core.SessionOptions{Next: true, TakeOver: l.Token()}, core.InvalidArgument},
		} {
			if _, err := accepting(t.Context(), b.Broker, c.o); core.CodeOf(err) != c.want {
				t.Errorf("%s: got %v, want %v", what, err, c.want)
			}
		}
		if _, err := shared.Renew(t.Context()); err != nil {
			t.Errorf("renew what was not taken over: %v", err)
		}
	})
}

// Those that wait for a next session get a lock of the kind that they ask for.
func TestNextSessionIsLockedInTheRequestedMode(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		answers := make(chan core.SessionLock, 4)
		want := [...]core.SessionMode{core.Exclusive, core.NonExclusive, core.Exclusive, core.NonExclusive}
		for i, m := range want {
			go func() {
				h, err := accepting(t.Context(), b.Broker, core.SessionOptions{Next: true, Sharing: m})
				if err != nil || h.Lock().Mode != m {
					t.Errorf("waiter %d: got %v, want mode %d", i, err, m)
				}
				answers <- core.SessionLock{}
			}()
			synctest.Wait()
		}
		for i := range want {
			b.send(t, "q", of(string(rune('a'+i)), 0, 1)...)
		}
		for range want {
			<-answers
		}
	})
}

// What a holder does a moment after the end of its lock counts, and others wait as long.
func TestSessionIsHeldAMomentLongerThanItsLockSays(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", of("a", 0, 1)...)
		h := b.mustAccept(t, "q", "a")
		h.AddCredit(1, core.AnyMessage)
		d := h.take()[0]
		next := make(chan time.Time, 1)
		time.Sleep(time.Minute - time.Second)
		go func() {
			b.mustAccept(t, "q", "")
			next <- time.Now()
		}()
		time.Sleep(time.Second + core.SessionGrace - time.Millisecond)
		synctest.Wait()
		end := h.LockedUntil().Add(core.SessionGrace)
		if got := h.closures(); len(got) > 0 {
			t.Errorf("closed too early, with %v", got)
		}
		if err := under(t, b.Broker, h, core.Abandon, d); err != nil {
			t.Errorf("settle: %v", err)
		}
		if at := <-next; at.Before(end) || at.Sub(end) > 10*time.Millisecond {
			t.Errorf("another receiver has it at %v, want it at %v", at, end)
		}
		synctest.Wait()
		if got := h.closures(); len(got) != 1 || !errors.Is(got[0], core.SessionLockLost) {
			t.Errorf("closed with %v, want %v", got, core.SessionLockLost)
		}
		if _, err := h.Renew(t.Context()); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("renew afterwards: got %v, want %v", err, core.SessionLockLost)
		}
	})
}

func TestLapsedSessionThatIsClosedIsNotReported(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		h := b.mustAccept(t, "q", "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		h.Close()
		time.Sleep(time.Second)
		if got := h.closures(); len(got) > 0 {
			t.Errorf("closed with %v", got)
		}
	})
}

func TestPurgeInASession(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.send(t, "q", append(of("a", 0, 3), of("b", 0, 2)...)...)
		h := b.mustAccept(t, "q", "a")
		h.AddCredit(1, core.AnyMessage)
		if got := bodies(h.take()); got != "a/0" {
			t.Fatalf("got %s", got)
		}
		time.Sleep(time.Second)
		before := b.store.Now()
		b.send(t, "q", of("a", 3, 2)...)
		if n, err := h.Purge(t.Context(), before, 1); n != 1 || err != nil {
			t.Errorf("the first: got %d, %v", n, err)
		}
		if n, err := h.Purge(t.Context(), before, 500); n != 1 || err != nil {
			t.Errorf("the rest: got %d, %v, want one: another is locked", n, err)
		}
		if n, err := h.Purge(t.Context(), before, 500); n != 0 || err != nil {
			t.Errorf("no more: got %d, %v", n, err)
		}
		h.AddCredit(9, core.AnyMessage)
		if got := h.take(); bodies(got) != "a/3 a/4" || got[0].DeliveryCount != 0 {
			t.Errorf("left: got %s, want a/3 a/4", bodies(got))
		}
		h.Close()
		other := b.mustAccept(t, "q", "b")
		other.AddCredit(9, core.AnyMessage)
		if got := bodies(other.take()); got != "b/0 b/1" {
			t.Errorf("the other session: got %s", got)
		}
		if _, err := h.Purge(t.Context(), before, 1); !errors.Is(err, core.SessionLockLost) {
			t.Errorf("after the session: got %v, want %v", err, core.SessionLockLost)
		}
	})
}
