package redis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// BenchmarkHandOver is the life of a lone message, until it is completed: handed over to a receiver that
// waits, or locked by a call of its own after the doorbell has rung.
func BenchmarkHandOver(b *testing.B) {
	lasting := kilobyte()
	lasting.TimeToLive = time.Hour
	for _, c := range []struct {
		name    string
		message *core.Message
		topic   bool
		credit  int
	}{
		{"queue/locked", kilobyte(), false, 0},
		{"queue/handed over", kilobyte(), false, 1},
		{"with a time to live/locked", lasting, false, 0},
		{"with a time to live/handed over", lasting, false, 1},
		{"subscription/locked", kilobyte(), true, 0},
		{"subscription/handed over", kilobyte(), true, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := newBenchmark(b)
			p := m.queue
			send := func() error { return p.In(m.store).Append(b.Context(), [][]*core.Message{{c.message}})[0].Err }
			if c.topic {
				st := newStand(b, m.store, "a")
				p = st.at("a")
				version, publication := st.version(m.store), to(c.message, p)
				send = func() error { return st.publish(m.store, version, publication) }
			}
			w := &taker{handed: make(chan handed, 1), woken: make(chan struct{}, 1)}
			b.Cleanup(p.In(m.store).Watch(w))
			<-w.woken
			ds, _, err := p.In(m.store).Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: 1}}) // arms the doorbell
			if err != nil || len(ds) > 0 {
				b.Fatal(len(ds), err)
			}
			w.free = c.credit
			m.begin()
			for b.Loop() {
				if err := send(); err != nil {
					b.Fatal(err)
				}
				if c.credit > 0 {
					ds = (<-w.handed).ds
				}
				if c.credit == 0 || len(ds) == 0 { // as before the server knows the scripts
					<-w.woken
					ds, _, err = p.In(m.store).Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: 2}}) // it finds fewer, and arms the doorbell
				}
				if err == nil {
					err = settle(m.store, p, core.Complete, ds...)
				}
				if err != nil || len(ds) != 1 {
					b.Fatal(len(ds), err)
				}
			}
			m.end(b.N)
		})
	}
}

// BenchmarkBatch is the life of messages that come together, are handed over and are completed in
// five calls, as five receivers do.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{5, 10, 25, 100} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			m := newBenchmark(b)
			p := m.queue
			group := make([]*core.Message, size)
			for i := range group {
				group[i] = kilobyte()
			}
			w := &taker{handed: make(chan handed, 1), woken: make(chan struct{}, 1)}
			b.Cleanup(p.In(m.store).Watch(w))
			<-w.woken
			ds, _, err := p.In(m.store).Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: 1}}) // arms the doorbell
			if err != nil || len(ds) > 0 {
				b.Fatal(len(ds), err)
			}
			w.free = 2 * size
			m.begin()
			for b.Loop() {
				if err := p.In(m.store).Append(b.Context(), [][]*core.Message{group})[0].Err; err != nil {
					b.Fatal(err)
				}
				ds = (<-w.handed).ds
				for len(ds) < size { // as before the server knows the scripts, and the store the size of messages
					more, _, err := p.In(m.store).Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: 2 * size}})
					if err != nil {
						b.Fatal(err)
					}
					ds = append(ds, more...)
				}
				for i := range 5 {
					var part []core.Delivery
					for j := i; j < len(ds); j += 5 {
						part = append(part, ds[j])
					}
					if err := settle(m.store, p, core.Complete, part...); err != nil {
						b.Fatal(err)
					}
				}
			}
			m.end(size * b.N)
		})
	}
}
