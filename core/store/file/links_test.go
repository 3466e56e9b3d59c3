package file

import (
	"slices"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// openedAgain opens a store again after its process was killed, or after an orderly end.
func openedAgain(t *testing.T, s *Store, killed bool) *Store {
	t.Helper()
	if killed {
		s.abandon()
	} else if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return mustOpen(t, s.dir, s.o)
}

// endings opens a store again and again: from frames, from a snapshot, and from both once more.
func endings(t *testing.T, test func(t *testing.T, s *Store, again func(*Store) *Store)) {
	for name, killed := range map[string]bool{"killed": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			s := mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever, Memory: -1})
			test(t, s, func(s *Store) *Store { return openedAgain(t, s, killed) })
		})
	}
}

func TestSessionLocksEndAsReleasesWhenTheStoreOpens(t *testing.T) {
	t.Parallel()
	endings(t, func(t *testing.T, s *Store, again func(*Store) *Store) {
		p := newQueue(t, s)
		p.Sessions, p.MaxDeliveryCount, p.History = true, 1, core.HistoryBounds{Keep: time.Hour, Max: 100}
		ctx := t.Context()
		for _, session := range []string{"exclusive", "shared"} {
			ms := []*core.Message{message("a"), message("b"), message("c")}
			for _, m := range ms {
				m.SessionID, m.MessageID = session, core.StringID(session)
			}
			if a := p.In(s).Append(ctx, [][]*core.Message{ms}); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
		}
		for range 3 {
			var locks []core.SessionLock
			var tokens []core.LockToken
			for _, mode := range []core.SessionMode{core.Exclusive, core.NonExclusive} {
				l, ok, _, err := p.In(s).AcceptSession(ctx, core.SessionRequest{Next: true, Mode: mode})
				if err != nil || !ok {
					t.Fatalf("accept: %t, %v", ok, err)
				}
				if err := p.In(s).SetSessionState(ctx, l, []byte(l.ID)); err != nil {
					t.Fatal(err)
				}
				ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 2}, Session: &l})
				if err != nil || len(ds) != 2 {
					t.Fatalf("lock in session: %d, %v", len(ds), err)
				}
				for _, d := range ds {
					if d.DeliveryCount != 0 {
						t.Errorf("%s of session %s: %d failed deliveries, want 0", d.Body.Bytes, l.ID, d.DeliveryCount)
					}
					tokens = append(tokens, d.LockToken)
				}
				locks = append(locks, l)
			}
			s = again(s)
			for i, l := range locks {
				if _, err := p.In(s).RenewSession(ctx, l); core.CodeOf(err) != core.SessionLockLost {
					t.Errorf("renew session %s: got %v, want %v", l.ID, err, core.SessionLockLost)
				}
				if err := p.In(s).Settle(ctx, []core.Settlement{{Token: tokens[2*i]}})[0]; core.CodeOf(err) != core.SessionLockLost {
					t.Errorf("settle in session %s: got %v, want %v", l.ID, err, core.SessionLockLost)
				}
			}
			if _, _, _, err := p.In(s).AcceptSession(ctx, core.SessionRequest{ID: locks[1].ID, TakeOver: locks[1].Token()}); core.CodeOf(err) != core.SessionLockLost {
				t.Errorf("take over: got %v, want %v", err, core.SessionLockLost)
			}
		}
		l, _, _, err := p.In(s).AcceptSession(ctx, core.SessionRequest{ID: "exclusive"})
		if err != nil {
			t.Fatal(err)
		}
		if state, err := p.In(s).SessionState(ctx, l); string(state) != "exclusive" || err != nil {
			t.Errorf("the state of the session: got %q, %v", state, err)
		}
		ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 9}, Session: &l})
		if err != nil || len(ds) != 3 || ds[0].DeliveryCount != 0 || string(ds[0].Body.Bytes) != "a" {
			t.Errorf("messages: got %+v, %v", ds, err)
		}
		events, err := p.In(s).Recollect(ctx, core.Subject{MessageID: "exclusive"})
		released := 0
		for _, e := range events {
			if e.Kind == core.EventReleased {
				released++
			}
		}
		if released != 6 || err != nil {
			t.Errorf("the history has %d releases, %v; want 6", released, err)
		}
	})
}

// A deferred message that was locked in a session is deferred again.
func TestDeferredMessagesOfSessionsStayDeferredWhenTheStoreOpens(t *testing.T) {
	t.Parallel()
	endings(t, func(t *testing.T, s *Store, again func(*Store) *Store) {
		p := newQueue(t, s)
		p.Sessions = true
		m := message("a")
		m.SessionID = "x"
		number := p.In(s).Append(t.Context(), [][]*core.Message{{m}})[0].Numbers[0]
		for i := range 3 {
			l, _, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}, Session: &l})
				if err != nil || len(ds) != 1 {
					t.Fatalf("lock: %d, %v", len(ds), err)
				}
				if err := p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.Defer, Session: &l}})[0]; err != nil {
					t.Fatal(err)
				}
			}
			if ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Numbers: []int64{number}, Deferred: true, Session: &l}); err != nil || ds[0].DeliveryCount != 1 {
				t.Fatalf("lock deferred: %+v, %v", ds, err)
			}
			s = again(s)
		}
	})
}

func TestLocksOfTheBrokerEndWhenTheStoreOpensThoseOfReceiversStay(t *testing.T) {
	t.Parallel()
	endings(t, func(t *testing.T, s *Store, again func(*Store) *Store) {
		ctx := t.Context()
		p := newQueue(t, s)
		p.MaxDeliveryCount = 1
		own, transfer := p, p
		own.BrokerLocks = true
		transfer.Sub = core.Transfer
		send(t, s, p, "of a receiver", "of the broker", "free")
		send(t, s, transfer, "in transfer")
		received, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 1}})
		if err != nil || len(received) != 1 {
			t.Fatalf("lock: %d, %v", len(received), err)
		}
		for range 3 {
			for _, p := range []core.Partition{own, transfer} { // older versions had no mark
				ds, _, err := p.In(s).Lock(ctx, core.LockRequest{Most: core.Most{Messages: 1}})
				if err != nil || len(ds) != 1 || ds[0].DeliveryCount != 0 {
					t.Fatalf("lock: got %+v, %v", ds, err)
				}
				if got, want := string(ds[0].Body.Bytes), map[core.SubQueue]string{core.Main: "of the broker", core.Transfer: "in transfer"}[p.Sub]; got != want {
					t.Fatalf("lock: got %q, want %q", got, want)
				}
			}
			s = again(s)
		}
		if err := p.In(s).Settle(ctx, []core.Settlement{{Token: received[0].LockToken}})[0]; err != nil {
			t.Errorf("settle by the receiver: %v", err)
		}
		if got, want := bodies(t, s, p), []string{"of the broker", "free"}; !slices.Equal(got, want) {
			t.Errorf("left: got %q, want %q", got, want)
		}
	})
}

// What a receiver has put off waits on, although it has a lock whose token nobody has.
func TestMessagesThatWereAbandonedWithADelayWaitOnWhenTheStoreOpens(t *testing.T) {
	t.Parallel()
	endings(t, func(t *testing.T, s *Store, again func(*Store) *Store) {
		p := newQueue(t, s)
		p.BrokerLocks = true
		send(t, s, p, "a")
		ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
		if err != nil || len(ds) != 1 {
			t.Fatalf("lock: %d, %v", len(ds), err)
		}
		backoff := core.Backoff{First: time.Second, Max: time.Second}
		if err := p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.Abandon, Backoff: backoff}})[0]; err != nil {
			t.Fatal(err)
		}
		s = again(s)
		if ds, next, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}}); err != nil || len(ds) > 0 || next.IsZero() {
			t.Errorf("lock: got %d messages, next %v, %v; want none before it is due", len(ds), next, err)
		}
	})
}
