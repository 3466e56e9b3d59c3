package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// deadLetter sends a message with that id and dead-letters it.
func (b *started) deadLetter(t *testing.T, name, id string) {
	t.Helper()
	m := text(id)
	m.MessageID = core.StringID(id)
	numbers := b.send(t, name, m)
	ds, err := b.Broker.LockNumbers(t.Context(), root, core.At(name), numbers, nil)
	if err != nil || len(ds) != 1 {
		t.Fatalf("lock %v: got %v, %v", numbers, ds, err)
	}
	if err := b.Broker.Settle(t.Context(), root, core.At(name), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.DeadLetterOutcome}})[0]; err != nil {
		t.Fatal(err)
	}
}

func keeping(pattern string, keep time.Duration) Selected {
	return Selected{DeadLetters: []For[time.Duration]{{Entity: pattern, Set: keep}}}
}

// Two gateways, a partitioned queue and a subscription. The time counts from the dead-lettering, not from the
// sending, and a locked dead letter waits until its lock ends.
func TestOldDeadLettersAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		for range 2 {
			g := startGatewayWith(store, Options{Namespace: "ns", Selected: keeping("Q*", 24*time.Hour)})
			defer g.end()
		}
		g := startGatewayWith(store, Options{Namespace: "ns", Selected: keeping("Q*", 24*time.Hour)})
		defer g.end()
		b := newStarted(g.Broker, &faulty{Store: store}, nil)
		b.create(t, "q", partitioned)
		b.create(t, "other")
		for i := range 20 {
			b.deadLetter(t, "q", fmt.Sprint("a", i))
		}
		b.deadLetter(t, "other", "kept")
		old := b.send(t, "q", text("old"))
		time.Sleep(12 * time.Hour)
		ds, err := g.LockNumbers(t.Context(), root, core.At("q"), old, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.DeadLetterOutcome}})

		dead := "q" + core.DeadLetter.Suffix()
		locked := b.receive(t, dead, core.PeekLock, 1)
		time.Sleep(12*time.Hour - time.Minute - time.Second)
		if n := len(b.dead(t, "q")); n != 21 {
			t.Errorf("before their time: %d dead letters, want 21", n)
		}
		locked.Close()
		locked = b.receive(t, dead, core.PeekLock, 1)
		time.Sleep(2*time.Minute + time.Second)
		if ids := b.dead(t, "q"); len(ids) != 1 {
			t.Errorf("in time: got %v, want the younger one", ids)
		}
		locked.Close()
		time.Sleep(12 * time.Hour)
		if ids := b.dead(t, "q"); len(ids) != 0 {
			t.Errorf("at last: got %v", ids)
		}
		if ids := b.dead(t, "other"); len(ids) != 1 {
			t.Errorf("of an entity without the setting: got %v", ids)
		}
		g.Select(keeping("other", time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait()
		if ids := b.dead(t, "other"); len(ids) != 0 {
			t.Errorf("after a change of the setting: got %v", ids)
		}
		// Of a message that was put there, only the enqueued time is known.
		if _, err := g.Deposit(t.Context(), root, core.At("other"+core.DeadLetter.Suffix()), []*core.Message{text("m")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Minute)
		if n := len(b.dead(t, "other")); n != 1 {
			t.Errorf("put there: %d dead letters, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(b.dead(t, "other")); n != 0 {
			t.Errorf("put there, an hour later: %d dead letters", n)
		}
	})
}

// dead are the ids of the dead letters.
func (b *started) dead(t *testing.T, name string) (ids []string) {
	t.Helper()
	synctest.Wait()
	ds, err := b.Broker.Peek(t.Context(), root, core.At(name+core.DeadLetter.Suffix()), nil, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		ids = append(ids, d.MessageID.String())
	}
	return ids
}
