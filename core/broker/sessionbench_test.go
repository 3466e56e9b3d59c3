package broker

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

func benchSessionful(b *testing.B, partitioned bool) *Broker {
	b.Helper()
	br := New(memory.New(memory.Options{}), Options{Namespace: "ns"})
	b.Cleanup(br.stop)
	s := core.DefaultSettings(core.Queue)
	s.RequiresSession, s.EnablePartitioning = true, partitioned
	if _, err := br.CreateEntity(b.Context(), root, core.Queue, "q", s, nil); err != nil {
		b.Fatal(err)
	}
	return br
}

// A thousand held sessions: each message is sent to one of them, delivered and
// completed. It measures per message.
func BenchmarkThousandSessions(b *testing.B) {
	for _, partitioned := range []bool{false, true} {
		b.Run(fmt.Sprint("partitioned=", partitioned), func(b *testing.B) { benchThousandSessions(b, partitioned) })
	}
}

func benchThousandSessions(b *testing.B, partitioned bool) {
	const sessions, round = 1000, 1000
	br := benchSessionful(b, partitioned)
	completed := make(chan int, round)
	for i := range sessions {
		var held core.Session
		open := make(chan struct{})
		deliver := func(ds []core.Delivery) {
			<-open
			ss := make([]core.Settlement, len(ds))
			for i := range ds {
				ss[i] = core.Settlement{Token: ds[i].LockToken}
			}
			for _, err := range br.Settle(b.Context(), root, core.Address{Entity: "q"}, ss) {
				if err != nil {
					b.Error(err)
				}
			}
			held.AddCredit(len(ds), core.AnyMessage)
			completed <- len(ds)
		}
		var err error
		held, err = br.AcceptSession(b.Context(), root, core.At("q"), core.SessionOptions{
			ID: fmt.Sprint("s", i), ReceiverOptions: core.ReceiverOptions{Deliver: deliver},
		})
		if err != nil {
			b.Fatal(err)
		}
		held.AddCredit(10, core.AnyMessage)
		close(open)
	}
	sender, err := br.OpenSender(b.Context(), root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	groups := make([][]*core.Message, 0, round)
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		next++
		m := text("x")
		m.SessionID = fmt.Sprint("s", next%sessions)
		if groups = append(groups, []*core.Message{m}); len(groups) < round {
			continue
		}
		for _, a := range sender.Send(b.Context(), groups) {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
		}
		groups = groups[:0]
		for left := round; left > 0; {
			left -= <-completed
		}
	}
}

// Sessions come free one after another, and each is accepted, emptied and closed
// by whoever waits for a next one. It measures per session, with one message in it.
func BenchmarkNextSession(b *testing.B) {
	br := benchSessionful(b, true)
	sender, err := br.OpenSender(b.Context(), root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		m := text("x")
		m.SessionID = fmt.Sprint("s", n)
		n++
		if a := sender.Send(b.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
			b.Fatal(a[0].Err)
		}
		arrived := make(chan core.Delivery, 1)
		s, err := br.AcceptSession(b.Context(), root, core.At("q"), core.SessionOptions{Next: true, ReceiverOptions: core.ReceiverOptions{
			Deliver: func(ds []core.Delivery) { arrived <- ds[0] },
		}})
		if err != nil {
			b.Fatal(err)
		}
		s.AddCredit(1, core.AnyMessage)
		d := <-arrived
		if err := br.Settle(b.Context(), root, core.Address{Entity: "q"}, []core.Settlement{{Token: d.LockToken}})[0]; err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
