package broker

import (
	"context"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

func benchBroker(b *testing.B, store core.Store) *Broker {
	b.Helper()
	br := New(store, Options{Namespace: "ns"})
	b.Cleanup(br.stop)
	if _, err := br.CreateEntity(b.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
		b.Fatal(err)
	}
	return br
}

// instantly is a store whose Lock makes deliveries out of nothing: what is
// measured on it is the dispatcher alone.
type instantly struct {
	core.Store
	ds []core.Delivery
}

// Partition wraps the operations on a partition.
func (s *instantly) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: instantlyPartition{s.Store.Partition(r, p), s}}
}

// instantlyPartition is a partition of an instantly.
type instantlyPartition struct {
	core.Partition
	*instantly
}

func (s instantlyPartition) Lock(_ context.Context, r core.LockRequest) ([]core.Delivery, time.Time, error) {
	return s.ds[:r.Messages:r.Messages], time.Time{}, nil
}

func newInstantly() *instantly {
	s := &instantly{Store: memory.New(memory.Options{}), ds: make([]core.Delivery, delivery.MaxLock)}
	for i := range s.ds {
		s.ds[i].Message = &core.Message{}
	}
	return s
}

// benchReceive receives with the given credit at a time; it measures per message.
func benchReceive(b *testing.B, br *Broker, credit int) {
	b.Helper()
	got, all := 0, make(chan struct{}, 1)
	r, err := br.OpenReceiver(b.Context(), root, core.At("q"), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
		if got += len(ds); got == credit {
			got = 0
			all <- struct{}{}
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%credit == 0 {
			r.AddCredit(credit, core.AnyMessage)
			<-all
		}
	}
}

// BenchmarkDispatch is per message, in batches of 100.
func BenchmarkDispatch(b *testing.B) { benchReceive(b, benchBroker(b, newInstantly()), 100) }

// BenchmarkDispatchLone is per message with a credit of one: a lone receiver's latency.
func BenchmarkDispatchLone(b *testing.B) { benchReceive(b, benchBroker(b, newInstantly()), 1) }

// BenchmarkRoundTrip is send, receive and complete in batches of 100, per message.
func BenchmarkRoundTrip(b *testing.B) {
	const size = 100
	br := benchBroker(b, memory.New(memory.Options{}))
	s, err := br.OpenSender(b.Context(), root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{}, 1)
	var got []core.Settlement
	r, err := br.OpenReceiver(b.Context(), root, core.At("q"), core.ReceiverOptions{Deliver: func(ds []core.Delivery) {
		for i := range ds {
			got = append(got, core.Settlement{Token: ds[i].LockToken})
		}
		if len(got) == size {
			done <- struct{}{}
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	body := make([]byte, 1024)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%size != 0 {
			continue
		}
		groups := make([][]*core.Message, size)
		for i := range groups {
			groups[i] = []*core.Message{{MessageID: core.StringID("id"), Body: core.Body{Bytes: body}}}
		}
		r.AddCredit(size, core.AnyMessage)
		s.Send(b.Context(), groups)
		<-done
		br.Settle(b.Context(), root, core.Address{Entity: "q"}, got)
		got = got[:0]
	}
}

// BenchmarkSend is one message to one partition, the store included.
func BenchmarkSend(b *testing.B) {
	br := benchBroker(b, swallowing{memory.New(memory.Options{})})
	s, err := br.OpenSender(b.Context(), root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	groups := each(text("m"))
	b.ReportAllocs()
	for b.Loop() {
		s.Send(b.Context(), groups)
	}
}

// swallowing is a store that does nothing: what is measured on it is the broker alone.
type swallowing struct{ core.Store }

func (s swallowing) Partition(r core.Ref, p core.Policy) core.Partition {
	inner := s.Store.Partition(r, p)
	inner.Operations = swallowingPartition{inner.Operations}
	return inner
}

type swallowingPartition struct{ core.Operations }

func (swallowingPartition) Append(context.Context, [][]*core.Message) []core.Appended {
	return nil
}

func (swallowingPartition) Settle(context.Context, []core.Settlement) []error { return nil }

// BenchmarkSettle is one settlement of one partition.
func BenchmarkSettle(b *testing.B) {
	br := benchBroker(b, swallowing{memory.New(memory.Options{})})
	ss := []core.Settlement{{Token: core.NewLockToken(0, 1, 2)}}
	b.ReportAllocs()
	for b.Loop() {
		br.Settle(b.Context(), root, core.Address{Entity: "q"}, ss)
	}
}

// BenchmarkAdmission measures what a rate limit and a circuit breaker add for each message that is received and completed,
// in batches of 100: an entity without them costs nothing.
func BenchmarkAdmission(b *testing.B) {
	for name, s := range map[string]Selected{
		"none":    {},
		"limit":   {RateLimits: []For[core.Rate]{{Entity: "q", Set: core.Rate{Every: time.Microsecond, Burst: 1_000_000}}}},
		"breaker": {CircuitBreakers: []For[Breaker]{{Entity: "q", Set: Breaker{Failures: 10, Of: 20, Consecutive: 5, Pause: time.Second}}}},
	} {
		b.Run(name, func(b *testing.B) {
			br := benchBroker(b, memory.New(memory.Options{}))
			br.Select(s)
			got := make(chan []core.Delivery, 100)
			ctx := core.WithPeer(b.Context(), "amqp 192.0.2.1:999")
			r, err := br.OpenReceiver(ctx, root, core.At("q"), core.ReceiverOptions{Deliver: func(ds []core.Delivery) { got <- ds }})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			tx, err := br.OpenSender(ctx, root, core.At("q"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer tx.Close()
			const batch = 100
			groups := each(numbered(batch)...)
			settlements := make([]core.Settlement, 0, batch)
			b.ReportAllocs()
			for b.Loop() {
				r.AddCredit(batch, core.AnyMessage)
				for _, a := range tx.Send(ctx, groups) {
					if a.Err != nil {
						b.Fatal(a.Err)
					}
				}
				settlements = settlements[:0]
				for len(settlements) < batch {
					for _, d := range <-got {
						settlements = append(settlements, core.Settlement{Token: d.LockToken})
					}
				}
				br.Settle(ctx, root, core.At("q"), settlements)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/message")
		})
	}
}
