package state

import (
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Calls that take nothing that is due do a part of a long sweep, and go on.
func TestASweepDoesSomeAtATime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := New(Options{Clock: func() time.Time { return now }})
	e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	p := core.Partition{Ref: core.Ref{Entity: "q"}, Policy: core.Policy{LockDuration: time.Minute}}
	q := s.partition(p.Ref).own.queue(core.Main)
	send := func(n int, life time.Duration) {
		group := make([]*core.Message, n)
		for i := range group {
			group[i] = &core.Message{TimeToLive: life}
		}
		if a := p.In(s).Append(t.Context(), [][]*core.Message{group}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
	send(1, 0)
	ds, _, err := p.In(s).Lock(t.Context(), core.LockRequest{Most: core.Most{Messages: 1}})
	if err != nil || len(ds) != 1 {
		t.Fatalf("lock: %v, %v", ds, err)
	}
	left := int64(10 * sweepMost)
	send(int(left), time.Second)
	now = now.Add(time.Second)

	step := func(what string, by int64, do func()) {
		t.Helper()
		do()
		if left -= by; q.counts[fresh] != left {
			t.Errorf("after %s: %d messages, want %d", what, q.counts[fresh], left)
		}
	}
	step("append", sweepMost-1, func() { send(1, 0) })
	step("renew", sweepMost, func() {
		if r := p.In(s).Renew(t.Context(), []core.LockToken{ds[0].LockToken}); r[0].Err != nil {
			t.Errorf("renew: %v", r[0].Err)
		}
	})
	step("settle", sweepMost, func() {
		if err := p.In(s).Settle(t.Context(), []core.Settlement{{Token: ds[0].LockToken}})[0]; err != nil {
			t.Errorf("settle: %v", err)
		}
	})
	step("sweep", left-1, func() {
		if next, err := p.In(s).Sweep(t.Context()); err != nil || !next.IsZero() {
			t.Errorf("sweep: next is %v, %v, want none", next, err)
		}
	})
}
