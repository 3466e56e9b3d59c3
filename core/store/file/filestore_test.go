package file

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/journal"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// mustOpen opens a store and closes it when the test ends.
func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever})
	})
}

func TestView(t *testing.T) {
	t.Parallel()
	storetest.RunView(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever})
	})
}

// The time of a view is no reason for the store's clock to begin later.
func TestTheTimeOfAViewIsNotTheStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	p := newQueue(t, s)
	later := s.WithTime(func(now time.Time) time.Time { return now.Add(time.Hour) })
	send(t, later, p, "a")
	for range 2 { // from frames, then from a snapshot
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, dir, Options{})
		if ahead := time.Until(s.Now()); ahead > time.Minute {
			t.Fatalf("the store's clock is %v ahead", ahead)
		}
		later = s.WithTime(func(now time.Time) time.Time { return now.Add(time.Hour) })
		send(t, later, p, "b")
	}
}

// Messages that are not in memory are read from the log.
func TestStoreWithoutMessagesInMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return mustOpen(t, t.TempDir(), Options{Clock: clock.Now, Sync: SyncNever, Memory: -1})
	})
}

// A store that is closed answers no call from what it has in memory.
func TestAClosedStoreAnswersNothing(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{Sync: SyncNever})
	p := newQueue(t, s)
	send(t, s, p, "a", "b")
	ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
	if err != nil || len(ds) != 1 {
		t.Fatalf("lock: %d messages, %v", len(ds), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, locked := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
	_, peeked := p.In(s).Peek(t.Context(), core.PeekRequest{Max: 10})
	_, counted := storetest.Stats(t.Context(), s, p)
	_, _, _, accepted := p.In(s).AcceptSession(t.Context(), core.SessionRequest{ID: "x"})
	_, renewed := p.In(s).RenewSession(t.Context(), core.SessionLock{ID: "x"})
	for call, err := range map[string]error{
		"append": p.In(s).Append(t.Context(), [][]*core.Message{{message("c")}})[0].Err,
		"settle": p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken}})[0],
		"again":  p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken}})[0],
		"renew":  p.In(s).Renew(t.Context(), []core.LockToken{ds[0].LockToken})[0].Err,
		"lock":   locked, "peek": peeked, "stats": counted, "accept": accepted, "renew session": renewed,
	} {
		if core.CodeOf(err) != core.Busy {
			t.Errorf("%s: got %v, want an error that says that the log is closed", call, err)
		}
	}
}

func TestSchedulesStayWhenTheStoreOpens(t *testing.T) {
	t.Parallel()
	endings(t, func(t *testing.T, s *Store, again func(*Store) *Store) {
		e := core.Entity{
			Namespace: "ns", Kind: core.Schedule, Name: core.SchedulePath("daily"), ID: "d",
			Schedule: &core.ScheduleSettings{Name: "daily", Cron: "@daily", LastTick: time.Unix(60, 0).UTC(), Message: core.ScheduledMessage{Properties: map[string]any{"n": "1"}}},
		}
		if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s = again(s)
			all, err := s.Entities(t.Context(), "ns", core.Listing{Kind: core.Schedule}, 0, 9)
			if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0].Schedule, e.Schedule) {
				t.Fatalf("got %+v, %v, want %+v", all, err, e.Schedule)
			}
		}
	})
}

// A snapshot counts what each segment still holds, to remove the others. Messages that move meanwhile,
// and large bodies, keep their segments.
func TestMessagesMoveDuringSnapshots(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{Memory: -1, Sync: SyncAlways, segmentSize: 16 << 10})
	p := newQueue(t, s)
	dead := p
	dead.Ref.Sub = core.DeadLetter
	const movers, moves = 4, 50
	large := strings.Repeat("x", journal.LargeBody)
	var moving sync.WaitGroup
	for mover := range movers {
		moving.Go(func() {
			for i := range moves {
				body := "small"
				if mover == 0 && i%10 == 0 {
					body = large
				}
				send(t, s, p, body)
				ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
				if err != nil || len(ds) != 1 {
					t.Errorf("lock: got %d messages, %v", len(ds), err)
					return
				}
				if err := p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.DeadLetterOutcome}})[0]; err != nil {
					t.Errorf("dead-letter: %v", err)
				}
			}
		})
	}
	var moved atomic.Bool
	go func() { moving.Wait(); moved.Store(true) }()
	for !moved.Load() {
		if err := s.Snapshot(t.Context()); err != nil {
			t.Fatalf("snapshot: %v", err)
		}
	}
	ds, err := dead.In(s).Peek(t.Context(), core.PeekRequest{Max: movers * moves})
	if err != nil || len(ds) != movers*moves {
		t.Errorf("dead letters: got %d, %v, want %d", len(ds), err, movers*moves)
	}
	moving.Wait()
}
