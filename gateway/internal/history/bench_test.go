package history

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// BenchmarkIdle is a reading of a gateway that has used 10,000 queues and is idle, which happens once in
// ten seconds.
func BenchmarkIdle(b *testing.B) { bench(b, 10_000, 0) }

// BenchmarkBusy is one where 500 of them are busy.
func BenchmarkBusy(b *testing.B) { bench(b, 10_000, 500) }

func bench(b *testing.B, queues, busy int) {
	root := core.Identity{{Policy: "root", Rights: core.Manage | core.Send | core.Listen}}
	on := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = on.Run(ctx) }()
	defer func() { stop(); <-done }()
	send := func(i int) {
		s, err := on.OpenSender(ctx, root, core.At(fmt.Sprint("q", i)), nil)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if a := s.Send(ctx, [][]*core.Message{{{Body: core.Body{}}}}); a[0].Err != nil {
			b.Fatal(a[0].Err)
		}
	}
	for i := range queues {
		if _, err := on.CreateEntity(ctx, root, core.Queue, fmt.Sprint("q", i), core.DefaultSettings(core.Queue), nil); err != nil {
			b.Fatal(err)
		}
		send(i)
	}
	h := New(steady)
	h.Add("ns", on)
	now := time.Now()
	for range 2 {
		now = now.Add(Interval)
		h.read(ctx, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range busy {
			send(i)
		}
		b.StartTimer()
		now = now.Add(Interval)
		h.read(ctx, now)
	}
}
