package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// Real time and many goroutines: receivers come, go and drain while messages
// flow, and each message is received once.
func TestNoMessageIsLostWhileReceiversComeAndGo(t *testing.T) {
	t.Parallel()
	for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
		for _, partitions := range []bool{false, true} {
			t.Run(fmt.Sprint("mode ", mode, " partitioned ", partitions), func(t *testing.T) {
				t.Parallel()
				stress(t, mode, partitions)
			})
		}
	}
}

const (
	stressSenders   = 3
	stressReceivers = 6
	stressMessages  = 1500 // of each sender
)

func stress(t *testing.T, mode core.ReceiveMode, partitions bool) {
	b := New(memory.New(memory.Options{}), Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = b.Run(ctx) }) // it returns nil
	defer run.Wait()
	defer cancel()
	s := core.DefaultSettings(core.Queue)
	s.EnablePartitioning = partitions
	if _, err := b.CreateEntity(ctx, root, core.Queue, "q", s, nil); err != nil {
		t.Fatal(err)
	}

	var counts [stressSenders * stressMessages]atomic.Int32
	var received atomic.Int64
	all := make(chan struct{})
	deliver := func(ds []core.Delivery) {
		ss := make([]core.Settlement, 0, len(ds))
		for _, d := range ds {
			counts[d.GroupSequence.V].Add(1)
			ss = append(ss, core.Settlement{Token: d.LockToken})
		}
		if mode == core.PeekLock {
			for _, err := range b.Settle(ctx, root, core.At("q"), ss) {
				if err != nil {
					t.Errorf("complete: %v", err)
				}
			}
		}
		if received.Add(int64(len(ds))) == int64(len(counts)) {
			close(all)
		}
	}

	var work sync.WaitGroup
	for i := range stressSenders {
		work.Go(func() { stressSend(t, b, uint32(i*stressMessages)) })
	}
	for range stressReceivers {
		work.Go(func() { stressReceive(t, b, mode, deliver, all) })
	}
	work.Wait()
	for i := range counts {
		if n := counts[i].Load(); n != 1 {
			t.Fatalf("message %d was received %d times", i, n)
		}
	}
}

func stressSend(t *testing.T, b *Broker, first uint32) {
	s, err := b.OpenSender(t.Context(), root, core.At("q"), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for n := uint32(0); n < stressMessages; {
		var groups [][]*core.Message
		for range 1 + rand.IntN(30) {
			if n == stressMessages {
				break
			}
			m := &core.Message{}
			m.GroupSequence.V, m.GroupSequence.Set = first+n, true
			groups = append(groups, []*core.Message{m})
			n++
		}
		for _, a := range s.Send(t.Context(), groups) {
			if a.Err != nil {
				t.Error(a.Err)
			}
		}
	}
}

// stressReceive opens receivers one after the other. In ReceiveAndDelete mode
// each is drained before it is closed, because closing may lose messages then.
func stressReceive(t *testing.T, b *Broker, mode core.ReceiveMode, deliver func([]core.Delivery), all chan struct{}) {
	for {
		var got atomic.Int64
		r, err := b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{Mode: mode, Deliver: func(ds []core.Delivery) {
			got.Add(int64(len(ds)))
			deliver(ds)
		}})
		if err != nil {
			t.Error(err)
			return
		}
		credit := 0
		for range 1 + rand.IntN(3) {
			n := 1 + rand.IntN(40)
			credit += n
			r.AddCredit(n, core.AnyMessage)
		}
		if mode == core.ReceiveAndDelete || rand.IntN(2) == 0 {
			drained := make(chan int, 1)
			r.Drain(func(unspent int) { drained <- unspent })
			if unspent := <-drained; unspent+int(got.Load()) != credit {
				t.Errorf("drained %d after %d deliveries of %d", unspent, got.Load(), credit)
			}
		}
		r.Close()
		select {
		case <-all:
			return
		default:
		}
	}
}
