package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// inFanOut runs a test with a topic of a number of subscriptions, whose copies take memory of a pool.
func inFanOut(t *testing.T, limit int64, subscriptions int, rules []core.Rule, f func(t *testing.T, b *started, memory *fair.Pool)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := fair.New(limit, nil, nil)
		b := startWith(t, Options{Namespace: "ns", Memory: memory})
		b.createTopic(t, "t")
		for i := range subscriptions {
			b.subscribe(t, "t", fmt.Sprintf("s%d", i), rules)
		}
		f(t, b, memory)
		if held := memory.Stats().Held; held != 0 {
			t.Errorf("%d bytes are not returned", held)
		}
	})
}

// A batch is stored whole, so all its copies must fit.
func TestABatchWhoseCopiesDoNotFitIsRefused(t *testing.T) {
	const limit, subscriptions = 16 << 20, 32
	inFanOut(t, limit, subscriptions, nil, func(t *testing.T, b *started, _ *fair.Pool) {
		fits := limit * 3 / 8 / (fair.Copy + 64) / subscriptions
		s := b.sender(t, "t")
		answers := s.Send(t.Context(), [][]*core.Message{numbered(2 * fits)})
		if err := answers[0].Err; core.CodeOf(err) != core.QuotaExceeded {
			t.Errorf("got %v, want QuotaExceeded", err)
		}
		if got := len(b.all(t, "t/subscriptions/s0")); got != 0 {
			t.Errorf("%d messages of the refused batch are stored", got)
		}
		if err := s.Send(t.Context(), [][]*core.Message{numbered(fits / 2)})[0].Err; err != nil {
			t.Errorf("a smaller batch: %v", err)
		}
	})
}

// Messages that need not be stored together are published in pieces, in their order.
func TestMessagesWithManyCopiesArePublishedInPieces(t *testing.T) {
	const limit, subscriptions, messages = 8 << 20, 32, 1000
	inFanOut(t, limit, subscriptions, nil, func(t *testing.T, b *started, _ *fair.Pool) {
		for i, a := range b.sender(t, "t").Send(t.Context(), each(numbered(messages)...)) {
			if a.Err != nil {
				t.Fatalf("message %d: %v", i, a.Err)
			}
		}
		for _, sub := range []string{"s0", "s31"} {
			ds := b.all(t, "t/subscriptions/"+sub)
			if len(ds) != messages {
				t.Fatalf("%s has %d messages, want %d", sub, len(ds), messages)
			}
			for i := range ds {
				if got, want := string(ds[i].Message.Body.Bytes), fmt.Sprint(i); got != want {
					t.Fatalf("message %d of %s is %s, want %s", i, sub, got, want)
				}
			}
		}
	})
}

// The evaluation of a message ends as soon as what its rules' actions have made does not fit.
func TestCopiesThatActionsMakeDoNotFit(t *testing.T) {
	var rules []core.Rule
	for i := range 100 {
		rules = append(rules, sqlRule(fmt.Sprintf("r%d", i), "1=1", "SET a = 1"))
	}
	inFanOut(t, 8<<20, 1, rules, func(t *testing.T, b *started, memory *fair.Pool) {
		large := with(text("large"), core.Property{Key: "a", Value: string(make([]byte, 30_000))}, core.Property{Key: "b", Value: string(make([]byte, 30_000))})
		if err := b.sender(t, "t").Send(t.Context(), [][]*core.Message{{large}})[0].Err; core.CodeOf(err) != core.QuotaExceeded {
			t.Errorf("got %v, want QuotaExceeded", err)
		}
		if err := b.sender(t, "t").Send(t.Context(), [][]*core.Message{{text("small")}})[0].Err; err != nil {
			t.Errorf("a small message: %v", err)
		}
	})
}

// While others use the memory, a sender waits, and is then refused as busy.
func TestCopiesWaitForMemory(t *testing.T) {
	const limit = 8 << 20
	inFanOut(t, limit, 32, nil, func(t *testing.T, b *started, memory *fair.Pool) {
		others := memory.Share(func() {})
		others.Join(fair.Who{Namespace: "/other", Policy: "other"})
		others.Add(limit)
		time.AfterFunc(fair.Patience/2, func() { others.Add(-limit) })
		s := b.sender(t, "t")
		begun := time.Now()
		if err := s.Send(t.Context(), [][]*core.Message{numbered(10)})[0].Err; err != nil || time.Since(begun) != fair.Patience/2 {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		others.Add(limit)
		if err := s.Send(t.Context(), [][]*core.Message{numbered(10)})[0].Err; core.CodeOf(err) != core.Busy {
			t.Errorf("got %v, want Busy", err)
		}
		others.Close()
	})
}
