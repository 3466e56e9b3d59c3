package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// The holder of a paused session gets no message, whatever is activated, until the pause ends.
func TestActivationDoesNotWakeTheHolderOfAPausedSession(t *testing.T) {
	s := memory.New(memory.Options{})
	e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	q := s.Partition(core.Ref{Entity: e.ID}, core.Policy{LockDuration: time.Minute, MaxDeliveryCount: 10, Sessions: true})
	q.Append(t.Context(), [][]*core.Message{{{SessionID: "x"}, {SessionID: "x"}}})
	l, _, _, err := q.AcceptSession(t.Context(), core.SessionRequest{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	ds, _, err := q.Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 2}, Session: &l})
	if err != nil || len(ds) != 2 {
		t.Fatalf("lock: got %v, %v", ds, err)
	}
	settle := func(all ...core.Settlement) {
		t.Helper()
		if err := errors.Join(q.Settle(t.Context(), all)...); err != nil {
			t.Fatal(err)
		}
	}
	settle(core.Settlement{Token: ds[0].LockToken, Outcome: core.Defer, Session: &l},
		core.Settlement{Token: ds[1].LockToken, Outcome: core.Release, Session: &l, Backoff: core.Backoff{First: time.Hour}})
	woken := 0
	defer q.Watch(core.WakeFunc(func(core.SessionKey) { woken++ }))()
	for i, want := range []bool{false, true} {
		woken = 0
		settle(core.Settlement{Token: core.NewLockToken(0, ds[i].LockToken.Number(), 0), Outcome: core.Activate})
		if woken > 0 != want {
			t.Errorf("activation of message %d: woken %d times, want some: %t", i, woken, want)
		}
	}
}
