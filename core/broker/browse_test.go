package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
)

func TestPeekGoesThroughPartitionsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(40)...)
		var last int64 = -1
		seen := 0
		for {
			ds, err := b.Peek(t.Context(), root, core.At("q"), nil, last+1, 7)
			if err != nil || len(ds) > 7 {
				t.Fatalf("got %d, %v", len(ds), err)
			}
			if len(ds) == 0 {
				break
			}
			for _, d := range ds {
				if d.SequenceNumber <= last || !d.LockToken.IsZero() {
					t.Fatalf("number %x after %x, token %v", d.SequenceNumber, last, d.LockToken)
				}
				last = d.SequenceNumber
				seen++
			}
		}
		if seen != 40 {
			t.Fatalf("saw %d messages, want 40", seen)
		}
		if ds, err := b.Peek(t.Context(), root, core.At("q"), nil, -1, 100); err != nil || len(ds) != 40 {
			t.Errorf("from a negative number: got %d, %v, want all 40", len(ds), err)
		}
		if ds, err := b.Peek(t.Context(), root, core.At("q"), nil, core.SequenceNumber(9, 1), 5); err != nil || len(ds) != 0 {
			t.Errorf("beyond the last partition: got %d, %v", len(ds), err)
		}
	})
}

func TestPeekIsBoundedByBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		for range 5 {
			b.send(t, "q", text(strings.Repeat("x", 100<<10)))
		}
		if ds, err := b.Peek(t.Context(), root, core.At("q"), nil, 0, 5); err != nil || len(ds) != 3 {
			t.Fatalf("got %d messages of 100 KiB, %v, want the 3 that pass 256 KiB", len(ds), err)
		}
	})
}

// deferred sends one message to each of four partitions and defers them.
func deferred(t *testing.T, b *started) []int64 {
	t.Helper()
	b.create(t, "q", partitioned)
	numbers := b.send(t, "q", numbered(4)...)
	in := b.receive(t, "q", core.PeekLock, 4)
	settle(t, b, "q", core.Defer, in.take()...)
	in.Close()
	return numbers
}

func TestDeferredMessagesAreReceivedByNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		numbers := deferred(t, b)
		numbers[0], numbers[3] = numbers[3], numbers[0]
		ds, err := b.ReceiveDeferred(t.Context(), root, core.At("q"), numbers, core.PeekLock)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range ds {
			if d.SequenceNumber != numbers[i] || d.LockToken.IsZero() || d.State != core.Deferred {
				t.Errorf("%d: got %x %v, want %x locked", i, d.SequenceNumber, d.State, numbers[i])
			}
		}
		settle(t, b, "q", core.Complete, ds...)
		if _, err := b.ReceiveDeferred(t.Context(), root, core.At("q"), numbers, core.PeekLock); !errors.Is(err, core.MessageNotFound) {
			t.Errorf("once completed: got %v, want %v", err, core.MessageNotFound)
		}
	})
}

func TestReceivingDeferredMessagesIsAllOrNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		numbers := deferred(t, b)
		b.store.fail(core.Busy, 3)
		if _, err := b.ReceiveDeferred(t.Context(), root, core.At("q"), numbers, core.PeekLock); !errors.Is(err, core.Busy) {
			t.Errorf("one partition down: got %v, want %v", err, core.Busy)
		}
		b.store.fail(nil)
		for _, bad := range []int64{core.SequenceNumber(0, 99), core.SequenceNumber(8, 1)} {
			_, err := b.ReceiveDeferred(t.Context(), root, core.At("q"), append([]int64{bad}, numbers...), core.PeekLock)
			if want := fmt.Sprintf("could not be found: %d does not exist, or is not deferred.", bad); !errors.Is(err, core.MessageNotFound) || !strings.HasSuffix(core.TextOf(err), want) {
				t.Errorf("unknown number %x: got %v, want %v, %s", bad, err, core.MessageNotFound, want)
			}
		}
		ds, err := b.ReceiveDeferred(t.Context(), root, core.At("q"), numbers, core.ReceiveAndDelete)
		if err != nil || len(ds) != 4 || !ds[0].LockToken.IsZero() || ds[0].DeliveryCount != 1 {
			t.Fatalf("afterwards: got %d, %v, want all four, counted for the deferral only", len(ds), err)
		}
		if _, rt, err := b.Entity(t.Context(), root, "q"); err != nil || rt.Active != 0 {
			t.Errorf("left: %+v, %v, want nothing", rt, err)
		}
	})
}

func TestScheduledMessagesAreCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		var ms []*core.Message
		for range 6 {
			m := text("m")
			m.ScheduledEnqueueTime = time.Now().Add(time.Hour)
			ms = append(ms, m)
		}
		numbers := b.send(t, "q", ms...)
		if err := b.Cancel(t.Context(), core.Identity{{Rights: core.Listen}}, core.At("q"), numbers); !errors.Is(err, core.Unauthorized) {
			t.Errorf("with Listen: got %v, want %v", err, core.Unauthorized)
		}
		if err := b.Cancel(t.Context(), root, core.At("q"), numbers[:4]); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []int64{numbers[0], core.SequenceNumber(8, 1)} {
			if err := b.Cancel(t.Context(), root, core.At("q"), []int64{bad}); !errors.Is(err, core.MessageNotFound) {
				t.Errorf("cancel %x: got %v, want %v", bad, err, core.MessageNotFound)
			}
		}
		err := b.Cancel(t.Context(), root, core.At("q"), []int64{numbers[1], numbers[3]})
		if want := fmt.Sprintf(": %d, %d do not exist, or are not scheduled.", numbers[1], numbers[3]); !strings.HasSuffix(core.TextOf(err), want) {
			t.Errorf("got %v, want the numbers that are unknown: %s", err, want)
		}
		many := make([]int64, 30)
		for i := range many {
			many[i] = int64(1000 + i)
		}
		if err := b.Cancel(t.Context(), root, core.At("q"), many); !strings.Contains(core.TextOf(err), ": 1000, 1001, 1002, ") || !strings.HasSuffix(core.TextOf(err), ", 1009 and others do not exist, or are not scheduled.") {
			t.Errorf("got %v, want the first ten numbers", err)
		}
		in := b.receive(t, "q", core.PeekLock, 10)
		time.Sleep(time.Hour)
		if n := len(in.take()); n != 2 {
			t.Errorf("%d messages arrived, want the 2 not cancelled", n)
		}
	})
}

func TestPurgeRemovesOldMessagesAndSkipsLockedOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(12)...)
		in := b.receive(t, "q", core.PeekLock, 2)
		locked := in.take()
		in.Close()
		time.Sleep(time.Second)
		cut := time.Now()
		b.send(t, "q", numbered(4)...)
		if n, err := b.Purge(t.Context(), root, core.At("q"), cut, 3); err != nil || n != 3 {
			t.Errorf("at most 3: got %d, %v", n, err)
		}
		if n, err := b.Purge(t.Context(), root, core.At("q"), cut, 1<<30); err != nil || n != 7 {
			t.Errorf("the rest: got %d, %v, want 7", n, err)
		}
		settle(t, b, "q", core.Complete, locked...)
		in = b.receive(t, "q", core.PeekLock, 10)
		got := in.take()
		if len(got) != 4 || got[0].DeliveryCount != 0 {
			t.Errorf("left: got %d, want the 4 young ones, never counted", len(got))
		}
		synctest.Wait()
	})
}

func TestPurgeUpToALaterTimeRemovesAllThatCanBeReceived(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(12)...)
		in := b.receive(t, "q", core.PeekLock, 2)
		locked := in.take()
		in.Close()
		later := time.Now().Add(time.Second)
		if n, err := b.Purge(t.Context(), root, core.At("q"), later, 3); err != nil || n != 3 {
			t.Errorf("at most 3: got %d, %v", n, err)
		}
		if n, err := b.Purge(t.Context(), root, core.At("q"), later, 1<<30); err != nil || n != 7 {
			t.Errorf("the rest: got %d, %v, want 7", n, err)
		}
		settle(t, b, "q", core.DeadLetterOutcome, locked...)
		if n, err := b.Purge(t.Context(), root, core.At("q/$DeadLetterQueue"), later, 1<<30); err != nil || n != 2 {
			t.Errorf("dead letters: got %d, %v, want 2", n, err)
		}
		b.store.fail(core.Busy, 0, 1, 2, 3)
		if _, err := b.Purge(t.Context(), root, core.At("q"), later, 9); !errors.Is(err, core.Busy) {
			t.Errorf("while the store does not answer: got %v", err)
		}
	})
}

func TestPurgeIsCapped(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		for range 41 {
			b.sender(t, "q").Send(t.Context(), [][]*core.Message{numbered(100)})
		}
		time.Sleep(time.Second)
		if n, err := b.Purge(t.Context(), root, core.At("q"), time.Now(), 1<<30); err != nil || n != delivery.MaxPurge {
			t.Fatalf("got %d, %v, want %d", n, err, delivery.MaxPurge)
		}
	})
}
