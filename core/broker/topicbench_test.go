package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// benchTopic makes a topic with so many subscriptions, each with the rule that
// rule makes.
func benchTopic(b *testing.B, store core.Store, subscriptions int, rule func(i int) core.Rule) *Broker {
	b.Helper()
	br := New(store, Options{Namespace: "ns"})
	b.Cleanup(br.stop)
	if _, err := br.CreateEntity(b.Context(), root, core.Topic, "t", core.DefaultSettings(core.Topic), nil); err != nil {
		b.Fatal(err)
	}
	for i := range subscriptions {
		r := rule(i)
		if _, err := br.CreateEntity(b.Context(), root, core.Subscription, core.SubscriptionPath("t", fmt.Sprint("s", i)), core.DefaultSettings(core.Subscription), &r); err != nil {
			b.Fatal(err)
		}
	}
	return br
}

// unpublished is a store that keeps nothing of what is published.
type unpublished struct{ core.Store }

func (s unpublished) Partition(r core.Ref, p core.Policy) core.Partition {
	inner := s.Store.Partition(r, p)
	inner.Operations = unpublishedPartition{inner.Operations}
	return inner
}

type unpublishedPartition struct{ core.Operations }

func (unpublishedPartition) Publish(_ context.Context, _ int64, groups [][]core.Publication) []core.Appended {
	return make([]core.Appended, len(groups))
}

func benchPublish(b *testing.B, rule func(i int) core.Rule) {
	b.Helper()
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint("subscriptions=", n), func(b *testing.B) {
			br := benchTopic(b, unpublished{memory.New(memory.Options{})}, n, rule)
			s, err := br.OpenSender(b.Context(), root, core.At("t"), nil)
			if err != nil {
				b.Fatal(err)
			}
			m := with(text("m"), core.Property{Key: "n", Value: int64(0)})
			groups := each(m)
			b.ReportAllocs()
			for b.Loop() {
				s.Send(b.Context(), groups)
			}
		})
	}
}

// BenchmarkPublishToAll is one message to a topic all of whose subscriptions get
// it, without the store.
func BenchmarkPublishToAll(b *testing.B) {
	benchPublish(b, func(int) core.Rule { return core.Rule{Filter: core.Filter{Kind: core.TrueFilter}} })
}

// BenchmarkPublishToOne is one message to a topic one of whose subscriptions gets
// it, without the store.
func BenchmarkPublishToOne(b *testing.B) {
	benchPublish(b, func(i int) core.Rule { return sqlRule("", fmt.Sprint("n = ", i), "") })
}

// BenchmarkPublishStored is one message to a topic all of whose subscriptions get
// it, kept in memory.
func BenchmarkPublishStored(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint("subscriptions=", n), func(b *testing.B) {
			store := memory.New(memory.Options{})
			br := benchTopic(b, store, n, func(int) core.Rule { return core.Rule{Filter: core.Filter{Kind: core.TrueFilter}} })
			s, err := br.OpenSender(b.Context(), root, core.At("t"), nil)
			if err != nil {
				b.Fatal(err)
			}
			groups := make([][]*core.Message, 1)
			body := make([]byte, 1024)
			b.ReportAllocs()
			sent := 0
			for b.Loop() {
				groups[0] = []*core.Message{{Body: core.Body{Bytes: body}, MessageID: core.StringID("id"), TimeToLive: time.Second}}
				if a := s.Send(b.Context(), groups); a[0].Err != nil {
					b.Fatal(a[0].Err)
				}
				if sent++; sent%(100_000/n) == 0 { // before the topic is full
					b.StopTimer()
					if err := br.Reset(b.Context(), root); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkForwardChain is one message through a chain of four queues to a
// receiver, in batches of 1000.
func BenchmarkForwardChain(b *testing.B) {
	const size = 1000
	br := New(memory.New(memory.Options{}), Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(b.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = br.Run(ctx) }) // it returns nil
	defer run.Wait()
	defer cancel()
	for i, to := range []string{"", "q0", "q1", "q2"} {
		s := core.DefaultSettings(core.Queue)
		s.ForwardTo = to
		if _, err := br.CreateEntity(ctx, root, core.Queue, fmt.Sprint("q", i), s, nil); err != nil {
			b.Fatal(err)
		}
	}
	s, err := br.OpenSender(ctx, root, core.At("q3"), nil)
	if err != nil {
		b.Fatal(err)
	}
	got, all := 0, make(chan struct{}, 1)
	r, err := br.OpenReceiver(ctx, root, core.At("q0"), core.ReceiverOptions{Mode: core.ReceiveAndDelete, Deliver: func(ds []core.Delivery) {
		if got += len(ds); got == size {
			got = 0
			all <- struct{}{}
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
			groups[i] = []*core.Message{{Body: core.Body{Bytes: body}}}
		}
		r.AddCredit(size, core.AnyMessage)
		s.Send(ctx, groups)
		<-all
	}
}
