package redis_test

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// BenchmarkNextSession accepts the next of so many sessions that wait, locks its
// first message and gives it back, so that as many wait as before. It measures per session.
func BenchmarkNextSession(b *testing.B) {
	for _, sessions := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			m := newBenchmark(b)
			p := m.queue
			p.Sessions = true
			for i := 0; i < sessions; i += 100 {
				var group []*core.Message
				for j := range 100 {
					message := kilobyte()
					message.SessionID = fmt.Sprint("s", i+j)
					group = append(group, message)
				}
				if a := p.In(m.store).Append(b.Context(), [][]*core.Message{group}); a[0].Err != nil {
					b.Fatal(a[0].Err)
				}
			}
			m.begin()
			for b.Loop() {
				l, ok, _, err := p.In(m.store).AcceptSession(b.Context(), core.SessionRequest{Next: true})
				if err != nil || !ok {
					b.Fatalf("accept: %v, %v", ok, err)
				}
				if ds, _, err := p.In(m.store).Lock(b.Context(), core.LockRequest{Most: core.Most{Messages: 1}, Session: &l}); err != nil || len(ds) != 1 {
					b.Fatalf("lock: %d messages, %v", len(ds), err)
				}
				if err := p.In(m.store).ReleaseSession(b.Context(), l); err != nil {
					b.Fatal(err)
				}
			}
			m.end(b.N)
		})
	}
}
