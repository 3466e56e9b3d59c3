package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// BenchmarkPublish publishes to all subscriptions of a topic.
func BenchmarkPublish(b *testing.B) {
	for _, subscriptions := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("subscriptions=%d", subscriptions), func(b *testing.B) { benchmarkPublish(b, subscriptions) })
	}
}

func benchmarkPublish(b *testing.B, subscriptions int) {
	s := memory.New(memory.Options{})
	topic := core.Entity{Namespace: "ns", Name: "bench", Kind: core.Topic, ID: "bench", Partitions: 1}
	create(b, s, topic)
	m := &core.Message{MessageID: core.StringID("0123456789abcdef"), Body: core.Body{Bytes: make([]byte, 1024)}}
	x := core.Publication{Message: m}
	for i := range subscriptions {
		e := core.Entity{
			Namespace: "ns", Name: core.SubscriptionPath("bench", fmt.Sprint(i)), Kind: core.Subscription,
			ID: fmt.Sprintf("bench%d", i), TopicID: topic.ID, Settings: core.DefaultSettings(core.Subscription),
		}
		create(b, s, e)
		x.Copies = append(x.Copies, core.Copy{To: new(e.Partition(0, core.Main).In(s)), Message: m})
	}
	const most = 1 << 17 // empties the subscriptions now and then, to bound the memory
	queued := 0
	group, at := [][]core.Publication{{x}}, topic.Partition(0, core.Main).In(s)
	b.ReportAllocs()
	for b.Loop() {
		if a := at.Publish(b.Context(), int64(subscriptions), group); a[0].Err != nil {
			b.Fatal(a[0].Err)
		}
		if queued += subscriptions; queued >= most {
			b.StopTimer()
			for _, c := range x.Copies {
				ds, _, err := c.To.Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: most}})
				if err != nil {
					b.Fatal(err)
				}
				settlements := make([]core.Settlement, len(ds))
				for i := range ds {
					settlements[i].Token = ds[i].LockToken
				}
				c.To.Settle(b.Context(), settlements)
			}
			queued = 0
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*subscriptions), "ns/copy")
}

func create(b *testing.B, s *memory.Store, e core.Entity) {
	b.Helper()
	if _, err := s.CreateEntity(b.Context(), e, core.NamespaceQuotas{}); err != nil {
		b.Fatal(err)
	}
}

const benchSessions = 1000

// newSessionBench makes a store with one partition, in which each of a thousand
// sessions has a message.
func newSessionBench(b *testing.B) (s *memory.Store, p core.Partition, groups [][][]*core.Message) {
	s = memory.New(memory.Options{})
	create(b, s, core.Entity{Namespace: "ns", Name: "bench", ID: "bench", Partitions: 1})
	p = core.Partition{Ref: core.Ref{Entity: "bench"}, Policy: core.Policy{LockDuration: time.Hour, MaxDeliveryCount: 10, Sessions: true}}.In(s)
	for i := range benchSessions {
		m := &core.Message{SessionID: fmt.Sprintf("session-%d", i), Body: core.Body{Bytes: make([]byte, 1024)}}
		groups = append(groups, [][]*core.Message{{m}})
		p.Append(b.Context(), groups[i])
	}
	b.ReportAllocs()
	return s, p, groups
}

// completeOne takes the first message of a session.
func completeOne(b *testing.B, s *memory.Store, p core.Partition, l core.SessionLock) {
	ds, _, err := p.Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: 1}, Session: &l})
	if err != nil || len(ds) != 1 {
		b.Fatalf("lock in session: got %d messages, %v", len(ds), err)
	}
	if err := p.Settle(b.Context(), []core.Settlement{{Token: ds[0].LockToken}})[0]; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSessionRoundTrip accepts the next of a thousand sessions for every
// message.
func BenchmarkSessionRoundTrip(b *testing.B) {
	s, p, groups := newSessionBench(b)
	for i := 0; b.Loop(); i++ {
		l, ok, _, err := p.AcceptSession(b.Context(), core.SessionRequest{Next: true})
		if err != nil || !ok {
			b.Fatalf("accept the next session: %t, %v", ok, err)
		}
		completeOne(b, s, p, l)
		if err := p.ReleaseSession(b.Context(), l); err != nil {
			b.Fatal(err)
		}
		p.Append(b.Context(), groups[i%benchSessions])
	}
}

// BenchmarkHeldSessionRoundTrip holds all of a thousand sessions.
func BenchmarkHeldSessionRoundTrip(b *testing.B) {
	s, p, groups := newSessionBench(b)
	locks := make([]core.SessionLock, benchSessions)
	for i := range locks {
		locks[i], _, _, _ = p.AcceptSession(b.Context(), core.SessionRequest{Next: true})
	}
	for i := 0; b.Loop(); i++ {
		completeOne(b, s, p, locks[i%benchSessions])
		p.Append(b.Context(), groups[i%benchSessions])
	}
}
