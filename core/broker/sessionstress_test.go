package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

const (
	stressSessions        = 50
	stressSessionMessages = 60 // of each session
	stressHolders         = 12
)

// Real time and many goroutines: holders come and go, some by accident, while
// messages flow. Each session has one holder at a time, and its messages are
// completed once and in order.
func TestSessionsStayExclusiveAndInOrder(t *testing.T) {
	t.Parallel()
	for _, partitions := range []bool{false, true} {
		t.Run(fmt.Sprint("partitioned ", partitions), func(t *testing.T) {
			t.Parallel()
			stressInSessions(t, partitions)
		})
	}
}

// stressed is what is known of the sessions.
type stressed struct {
	b    *Broker
	held [stressSessions]atomic.Bool
	done [stressSessions]atomic.Uint32 // messages completed
	left atomic.Int64                  // messages to complete
}

func stressInSessions(t *testing.T, partitions bool) {
	b := New(memory.New(memory.Options{}), Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = b.Run(ctx) }) // it returns nil
	defer run.Wait()
	defer cancel()
	settings := core.DefaultSettings(core.Queue)
	settings.RequiresSession, settings.EnablePartitioning, settings.MaxDeliveryCount = true, partitions, 2000
	if _, err := b.CreateEntity(ctx, root, core.Queue, "q", settings, nil); err != nil {
		t.Fatal(err)
	}
	s := &stressed{b: b}
	s.left.Store(stressSessions * stressSessionMessages)
	var work sync.WaitGroup
	work.Go(func() { s.send(t) })
	for range stressHolders {
		work.Go(func() {
			for s.left.Load() > 0 && !t.Failed() {
				s.hold(t)
			}
		})
	}
	work.Wait()
}

func (s *stressed) send(t *testing.T) {
	sender, err := s.b.OpenSender(t.Context(), root, core.At("q"), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer sender.Close()
	for n := range uint32(stressSessionMessages) {
		var ms []*core.Message
		for _, i := range rand.Perm(stressSessions) {
			m := text("x")
			m.SessionID = fmt.Sprint(i)
			m.GroupSequence.V, m.GroupSequence.Set = n, true
			ms = append(ms, m)
		}
		for _, a := range sender.Send(t.Context(), each(ms...)) {
			if a.Err != nil {
				t.Errorf("send: %v", a.Err)
			}
		}
	}
}

// hold accepts a session, takes some of its messages, and closes it with
// messages locked, or on the way, or none left.
func (s *stressed) hold(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	arrived := make(chan []core.Delivery, 1000) // for all credit that is given
	session, err := s.b.AcceptSession(ctx, root, core.At("q"), core.SessionOptions{Next: true, ReceiverOptions: core.ReceiverOptions{
		Deliver: func(ds []core.Delivery) { arrived <- ds },
		Closed:  func(err error) { t.Errorf("closed: %v", err) },
	}})
	if err != nil {
		if core.CodeOf(err) != core.Timeout {
			t.Errorf("accept: %v", err)
		}
		return
	}
	var i int
	_, _ = fmt.Sscan(session.ID(), &i)
	if s.held[i].Swap(true) {
		t.Errorf("session %d has two holders", i)
	}
	end := make(chan struct{})
	session.AddCredit(1+rand.IntN(20), core.AnyMessage)
take:
	for range 1 + rand.IntN(4) {
		if rand.IntN(4) == 0 {
			session.Drain(func(int) { close(end) })
			<-end
			break take
		}
		select {
		case ds := <-arrived:
			if !s.complete(t, i, ds) {
				break take
			}
			session.AddCredit(len(ds), core.AnyMessage)
		case <-time.After(time.Millisecond):
		}
	}
	s.held[i].Store(false)
	session.Close()
}

// complete completes deliveries one after another. Now and then it abandons one
// and reports false: what came with that is out of order then, and left for the
// next holder.
func (s *stressed) complete(t *testing.T, i int, ds []core.Delivery) bool {
	for _, d := range ds {
		if got, want := d.GroupSequence.V, s.done[i].Load(); got != want || d.SessionID != fmt.Sprint(i) {
			t.Errorf("session %d: got message %d of %s, want %d", i, got, d.SessionID, want)
			return false
		}
		if rand.IntN(20) == 0 {
			if err := s.b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken, Outcome: core.Abandon}})[0]; err != nil {
				t.Errorf("abandon: %v", err)
			}
			return false
		}
		if err := s.b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken}})[0]; err != nil {
			t.Errorf("complete: %v", err)
		}
		s.done[i].Add(1)
		s.left.Add(-1)
	}
	return true
}
