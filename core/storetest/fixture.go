package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// The methods of fixture are the steps of a test, which uses one partition of one entity.
type fixture struct {
	*testing.T
	store  core.Store
	clock  *Clock
	entity core.Entity
	main   core.Partition // tests change its policy
}

// The partition is not the first, so that sequence numbers and tokens contain its index.
const (
	fixturePartitions = 3
	fixtureIndex      = 2
	lockDuration      = 30 * time.Second
	sessionEnd        = lockDuration + core.SessionGrace // until the lock of a session has ended
	maxDeliveries     = 3
)

func newFixture(t *testing.T, store core.Store, clock *Clock) *fixture {
	s := &fixture{T: t, store: store, clock: clock}
	s.entity = s.create(newEntity("Orders", "q1"))
	s.main = core.Partition{
		Ref:    core.Ref{Entity: s.entity.ID, Index: fixtureIndex},
		Policy: core.Policy{Partitioned: true, LockDuration: lockDuration, MaxDeliveryCount: maxDeliveries},
	}
	return s
}

func newEntity(name, id string) core.Entity {
	return core.Entity{
		Namespace:  "ns",
		Name:       name,
		ID:         id,
		Partitions: fixturePartitions,
		Settings:   core.DefaultSettings(core.Queue),
		CreatedAt:  time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC),
		UpdatedAt:  time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC),
	}
}

func (s *fixture) create(e core.Entity) core.Entity {
	s.Helper()
	created, err := s.store.CreateEntity(s.Context(), e, core.NamespaceQuotas{})
	if err != nil {
		s.Fatalf("create entity %s: %v", &e, err)
	}
	return created
}

func (s *fixture) dead() core.Partition { return sub(s.main, core.DeadLetter) }

// p must be a main queue.
func sub(p core.Partition, to core.SubQueue) core.Partition {
	p.Sub, p.Sessions = to, false
	return p
}

func number(n int64) int64 { return core.SequenceNumber(fixtureIndex, n) }

func text(body string, with ...func(*core.Message)) *core.Message {
	m := &core.Message{Body: core.Body{Bytes: []byte(body)}}
	for _, f := range with {
		f(m)
	}
	return m
}

func id(s string) func(*core.Message) {
	return func(m *core.Message) { m.MessageID = core.StringID(s) }
}
func key(s string) func(*core.Message) { return func(m *core.Message) { m.PartitionKey = s } }

func ttl(d time.Duration) func(*core.Message) {
	return func(m *core.Message) { m.TimeToLive = d }
}

func (s *fixture) after(d time.Duration) func(*core.Message) {
	return func(m *core.Message) { m.ScheduledEnqueueTime = s.clock.Now().Add(d) }
}

func properties(t testing.TB, keysAndValues ...string) core.Properties {
	t.Helper()
	var pairs []core.Property
	for i := 0; i < len(keysAndValues); i += 2 {
		pairs = append(pairs, core.Property{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	ps, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatalf("properties %q: %v", keysAndValues, err)
	}
	return ps
}

func (s *fixture) send(group ...*core.Message) []int64 {
	s.Helper()
	return s.sendTo(s.main, group...)
}

func (s *fixture) sendTo(p core.Partition, group ...*core.Message) []int64 {
	s.Helper()
	a := p.In(s.store).Append(s.Context(), [][]*core.Message{group})
	if len(a) != 1 || a[0].Err != nil {
		s.Fatalf("append: got %+v, want one success", a)
	}
	return a[0].Numbers
}

func (s *fixture) sendTexts(bodies ...string) {
	s.Helper()
	for _, body := range bodies {
		s.send(text(body))
	}
}

func (s *fixture) lockAt(p core.Partition, limit int) []core.Delivery {
	s.Helper()
	ds, _, err := p.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: limit}})
	if err != nil {
		s.Fatalf("lock %d: %v", limit, err)
	}
	return ds
}

func (s *fixture) lock(limit int) []core.Delivery {
	s.Helper()
	return s.lockAt(s.main, limit)
}

func (s *fixture) lockOneAt(p core.Partition) core.Delivery {
	s.Helper()
	ds := s.lockAt(p, 1)
	if len(ds) != 1 {
		s.Fatalf("lock 1: got %d messages", len(ds))
	}
	return ds[0]
}

func (s *fixture) lockOne() core.Delivery {
	s.Helper()
	return s.lockOneAt(s.main)
}

func (s *fixture) trySettle(p core.Partition, token core.LockToken, o core.Outcome, over core.Properties) error {
	s.Helper()
	errs := p.In(s.store).Settle(s.Context(), []core.Settlement{{Token: token, Outcome: o, Properties: over}})
	if len(errs) != 1 {
		s.Fatalf("%v: got %d answers, want 1", o, len(errs))
	}
	return errs[0]
}

func (s *fixture) settle(d core.Delivery, o core.Outcome, over ...core.Properties) {
	s.Helper()
	s.settleAt(s.main, d, o, over...)
}

func (s *fixture) settleAt(p core.Partition, d core.Delivery, o core.Outcome, over ...core.Properties) {
	s.Helper()
	var all core.Properties
	for _, ps := range over {
		all = all.Merge(ps)
	}
	if err := s.trySettle(p, d.LockToken, o, all); err != nil {
		s.Fatalf("%v message %d: %v", o, d.SequenceNumber, err)
	}
}

func (s *fixture) tryRenew(p core.Partition, token core.LockToken) (time.Time, error) {
	s.Helper()
	rs := p.In(s.store).Renew(s.Context(), []core.LockToken{token})
	if len(rs) != 1 {
		s.Fatalf("renew: got %d answers, want 1", len(rs))
	}
	return rs[0].Until, rs[0].Err
}

func (s *fixture) deferOne(m *core.Message) int64 {
	s.Helper()
	s.send(m)
	d := s.lockOne()
	s.settle(d, core.Defer)
	return d.SequenceNumber
}

func (s *fixture) lockDeferred(numbers ...int64) []core.Delivery {
	s.Helper()
	ds, _, err := s.main.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: numbers, Deferred: true})
	if err != nil {
		s.Fatalf("lock deferred %v: %v", numbers, err)
	}
	return ds
}

func (s *fixture) peek(p core.Partition) []core.Delivery {
	s.Helper()
	ds, err := p.In(s.store).Peek(s.Context(), core.PeekRequest{Max: 1000})
	if err != nil {
		s.Fatalf("peek: %v", err)
	}
	return ds
}

func (s *fixture) sweep(p core.Partition) time.Time {
	s.Helper()
	next, err := p.In(s.store).Sweep(s.Context())
	if err != nil {
		s.Fatalf("sweep: %v", err)
	}
	return next
}

func (s *fixture) wantBodies(what string, ds []core.Delivery, want ...string) {
	s.Helper()
	got := make([]string, len(ds))
	for i, d := range ds {
		got[i] = string(d.Body.Bytes)
	}
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		s.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func (s *fixture) wantPurge(p core.Partition, limit, removed int) {
	s.Helper()
	n, err := p.In(s.store).Purge(s.Context(), limit)
	s.wantCode("purge", err, "")
	want(s, "purged", n, removed)
}

// stats returns p's counts, which StatsOf must also return together with those of other partitions.
func (s *fixture) stats(p core.Partition) core.Stats {
	s.Helper()
	others := []core.Partition{p}
	for q := range core.SubQueues {
		others = append(others, sub(p, q))
	}
	together := s.store.StatsOf(s.Context(), others)
	got, err := Stats(s.Context(), s.store, p)
	s.wantCode("stats", err, "")
	want(s, "answers of StatsOf", len(together), len(others))
	s.wantCode("stats of several", together[0].Err, "")
	want(s, "stats of several", together[0].Stats, got)
	return got
}

func Stats(ctx context.Context, s core.Store, p core.Partition) (core.Stats, error) {
	c := s.StatsOf(ctx, []core.Partition{p})[0]
	return c.Stats, c.Err
}

func (s *fixture) wantStats(what string, p core.Partition, want core.Stats) {
	s.Helper()
	got := s.stats(p)
	got.Bytes, got.Enqueued, got.SessionsHeld, got.SessionsWaiting = 0, 0, 0, 0
	if got != want {
		s.Fatalf("%s: stats: got %+v, want %+v", what, got, want)
	}
}

func (s *fixture) wantSessionCounts(what string, p core.Partition, held, waiting int64) {
	s.Helper()
	got := s.stats(p)
	if got.SessionsHeld != held || got.SessionsWaiting != waiting {
		s.Fatalf("%s: stats: got %d sessions held, %d waiting, want %d and %d", what, got.SessionsHeld, got.SessionsWaiting, held, waiting)
	}
}

func (s *fixture) wantEnqueued(what string, p core.Partition, want int64) {
	s.Helper()
	if got := s.stats(p); got.Enqueued != want {
		s.Fatalf("%s: got %d enqueued, want %d", what, got.Enqueued, want)
	}
}

func (s *fixture) wantCode(what string, err error, want core.Code) {
	s.Helper()
	if got := core.CodeOf(err); got != want || want != "" && !errors.Is(err, want) {
		s.Fatalf("%s: got %v, want %q", what, err, want)
	}
}

// wantDelivery compares everything except the lock.
func (s *fixture) wantDelivery(what string, got, want core.Delivery) {
	s.Helper()
	got.LockToken, got.LockedUntil = want.LockToken, want.LockedUntil
	if diff := diffDelivery(got, want); diff != "" {
		s.Fatalf("%s: %s", what, diff)
	}
}

func want[T comparable](s *fixture, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (s *fixture) wantTime(what string, got, want time.Time) {
	s.Helper()
	if !got.Equal(want) {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (s *fixture) wantReason(what string, d core.Delivery, reason, description string) {
	s.Helper()
	gotReason, _ := d.Properties.Get(core.PropertyDeadLetterReason)
	gotDescription, _ := d.Properties.Get(core.PropertyDeadLetterDescription)
	if gotReason != reason || gotDescription != description {
		s.Fatalf("%s: got reason %v, description %v, want %q, %q", what, gotReason, gotDescription, reason, description)
	}
}
