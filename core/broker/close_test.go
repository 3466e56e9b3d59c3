package broker

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/crosstown-mq/crosstown/core"
)

// receivers opens a receiver of a queue and one of a session, for the same tests.
var receivers = map[string]func(*testing.T, *started, core.ReceiverOptions) core.Receiver{
	"queue": func(t *testing.T, b *started, o core.ReceiverOptions) core.Receiver {
		b.create(t, "q")
		b.send(t, "q", numbered(3)...)
		r, err := b.OpenReceiver(t.Context(), root, core.At("q"), o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	},
	"session": func(t *testing.T, b *started, o core.ReceiverOptions) core.Receiver {
		b.create(t, "q", sessions)
		for _, m := range numbered(3) {
			m.SessionID = "s"
			b.send(t, "q", m)
		}
		s, err := b.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{ReceiverOptions: o, ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
}

func TestCloseWaitsForADeliverThatRuns(t *testing.T) {
	for what, open := range receivers {
		for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
			inBubbleNamed(t, fmt.Sprint(what, mode), func(t *testing.T, b *started) {
				release := make(chan struct{})
				var running, delivered atomic.Int32
				r := open(t, b, core.ReceiverOptions{Mode: mode, Deliver: func(ds []core.Delivery) {
					running.Add(1)
					<-release
					delivered.Add(int32(len(ds)))
					running.Add(-1)
				}})
				r.AddCredit(1, core.AnyMessage)
				synctest.Wait()
				if running.Load() != 1 {
					t.Fatal("no Deliver runs")
				}
				var closed atomic.Int32
				for range 2 { // whoever calls Close may rely on it
					go func() {
						r.Close()
						if running.Load() != 0 {
							t.Error("Close returned while a Deliver ran")
						}
						closed.Add(1)
					}()
				}
				synctest.Wait()
				if closed.Load() != 0 {
					t.Error("Close did not wait")
				}
				close(release)
				synctest.Wait()
				if closed.Load() != 2 || delivered.Load() != 1 {
					t.Errorf("%d Closes returned and %d messages were delivered, want 2 and 1", closed.Load(), delivered.Load())
				}
			})
		}
	}
}

func TestCloseAfterReturnsInADeliver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessions)
		for _, m := range numbered(3) {
			m.SessionID = "s"
			b.send(t, "q", m)
		}
		var s core.Session
		calls := 0
		o := core.ReceiverOptions{Deliver: func([]core.Delivery) {
			calls++
			settled := make(chan struct{})
			close(settled)
			s.CloseAfter(settled)
		}}
		var err error
		if s, err = b.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{ReceiverOptions: o, ID: "s"}); err != nil {
			t.Fatal(err)
		}
		s.AddCredit(1, core.AnyMessage)
		s.AddCredit(1, core.AnyMessage)
		<-s.Released()
		s.Close()
		if calls != 1 {
			t.Errorf("delivered %d times, want once", calls)
		}
	})
}

// What is removed for a receiver is delivered before its Close has
// returned, once it was drained.
func TestNothingIsLostByDrainingAndClosing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		const most = 300
		b.send(t, "q", numbered(most)...)
		got := 0
		for round := 0; got < most && round < 100*most; round++ {
			arrived := make(chan core.Delivery, 1)
			var over atomic.Bool
			r, err := b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{Mode: core.ReceiveAndDelete, Deliver: func(ds []core.Delivery) {
				if over.Load() {
					t.Error("a delivery began after Close")
				}
				arrived <- ds[0]
			}})
			if err != nil {
				t.Fatal(err)
			}
			r.AddCredit(1, core.AnyMessage)
			drained := make(chan struct{})
			r.Drain(func(int) { close(drained) })
			<-drained
			r.Close()
			over.Store(true)
			select {
			case <-arrived:
				got++
			default:
			}
		}
		_, rt, err := b.Entity(t.Context(), root, "q")
		if err != nil || rt.Active != 0 || got != most {
			t.Errorf("got %d of %d messages and %d are left, %v", got, most, rt.Active, err)
		}
	})
}
