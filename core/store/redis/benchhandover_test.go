package redis_test

import (
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
