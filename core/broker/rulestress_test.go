package broker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// Real time and many goroutines: senders at two gateways publish while a third
// changes the rule. No message is judged by a rule that was replaced before it
// was sent.
func TestNoMessageIsJudgedByRulesThatAreGone(t *testing.T) {
	t.Parallel()
	const rounds, senders = 100, 4
	store := memory.New(memory.Options{})
	admin := New(store, Options{Namespace: "ns"})
	defer admin.stop()
	s := newStarted(admin, &faulty{Store: store}, nil)
	s.createTopic(t, "t", partitioned)
	stamp := func(round int) core.Rule {
		return core.Rule{Name: "stamp", Filter: core.Filter{Kind: core.TrueFilter}, Action: fmt.Sprint("SET judged = ", round)}
	}
	sub := s.subscribe(t, "t", "s", []core.Rule{stamp(0)})

	var round atomic.Int64
	var sent [senders]int
	done := make(chan struct{})
	var work sync.WaitGroup
	for i := range senders {
		var gateway core.Store = store
		if i%2 == 0 {
			gateway = &unwatched{store}
		}
		b := New(gateway, Options{Namespace: "ns"})
		defer b.stop()
		to, err := b.OpenSender(t.Context(), root, core.At("t"), nil)
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				m := with(text("m"), core.Property{Key: "sent", Value: round.Load()})
				switch a := to.Send(t.Context(), each(m))[0]; core.CodeOf(a.Err) {
				case "":
					sent[i]++
				case core.Busy: // the rules kept changing
				default:
					t.Error(a.Err)
				}
			}
		})
	}
	for r := 1; r <= rounds; r++ {
		if _, err := admin.UpdateRule(t.Context(), root, sub, stamp(r)); err != nil {
			t.Fatal(err)
		}
		round.Store(int64(r))
	}
	close(done)
	work.Wait()

	total := 0
	for _, n := range sent {
		total += n
	}
	ent, err := store.Entity(t.Context(), "ns", sub)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for i := range ent.Partitions {
		ds, err := partition(&ent, uint16(i), core.Main).In(store).Peek(t.Context(), core.PeekRequest{Max: total + 1})
		if err != nil {
			t.Fatal(err)
		}
		got += len(ds)
		for _, d := range ds {
			if judged, sent := property(t, d, "judged").(int64), property(t, d, "sent").(int64); judged < sent {
				t.Fatalf("a message sent after round %d was judged by the rule of round %d", sent, judged)
			}
		}
	}
	if got != total {
		t.Errorf("%d messages arrived of %d that were acknowledged", got, total)
	}
}
