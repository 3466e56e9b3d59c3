package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/delivery"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

func TestMessagesArriveUpToTheCreditAndInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 3)
		b.send(t, "q", numbered(5)...)
		if got := bodies(in.take()); got != "0 1 2" {
			t.Fatalf("got %q", got)
		}
		in.AddCredit(10, core.AnyMessage)
		if got := bodies(in.take()); got != "3 4" {
			t.Fatalf("after more credit: got %q", got)
		}
	})
}

func TestALoneReceiverCostsOneLockCallPerMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(3)...)
		in := b.receive(t, "q", core.PeekLock, 0)
		for want := range 3 {
			before := b.store.lockCalls()
			in.AddCredit(1, core.AnyMessage)
			if got := bodies(in.take()); got != fmt.Sprint(want) || b.store.lockCalls() != before+1 {
				t.Fatalf("got %q after %d calls, want %d after 1", got, b.store.lockCalls()-before, want)
			}
		}
	})
}

func TestAnIdleReceiverDoesNotPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		in := b.receive(t, "q", core.PeekLock, 10)
		synctest.Wait()
		before := b.store.lockCalls()
		time.Sleep(time.Hour)
		if n := b.store.lockCalls() - before; n != 0 {
			t.Fatalf("%d calls in an idle hour", n)
		}
		b.send(t, "q", text("late"))
		if got := bodies(in.take()); got != "late" {
			t.Fatalf("got %q", got)
		}
	})
}

func TestReceiversShareFairly(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		var ins []*inbox
		for range 3 {
			ins = append(ins, b.receive(t, "q", core.PeekLock, 100))
		}
		b.send(t, "q", numbered(31)...)
		for range 9 {
			b.send(t, "q", text("more"))
			synctest.Wait()
		}
		for i, in := range ins {
			if n := len(in.take()); n < 12 || n > 15 {
				t.Errorf("receiver %d got %d of 40", i, n)
			}
		}
	})
}

func TestCreditIsSummedIntoOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 0)
		other := b.receive(t, "q", core.PeekLock, 0)
		b.send(t, "q", numbered(40)...)
		synctest.Wait()
		before := b.store.lockCalls()
		b.store.mu.Lock() // holds the first call back until all credit is given
		in.AddCredit(1, core.AnyMessage)
		in.AddCredit(19, core.AnyMessage)
		other.AddCredit(20, core.AnyMessage)
		b.store.mu.Unlock()
		if n := len(in.take()) + len(other.take()); n != 40 || b.store.lockCalls()-before > 2 {
			t.Fatalf("got %d messages in %d calls, want 40 in at most 2", n, b.store.lockCalls()-before)
		}
	})
}

func TestAllPartitionsProgressUnderScarceCredit(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(40)...)
		in := b.receive(t, "q", core.PeekLock, 0)
		seen := map[uint16]int{}
		for range 12 {
			in.AddCredit(1, core.AnyMessage)
			for _, d := range in.take() {
				seen[d.LockToken.Partition()]++
			}
		}
		for p := range uint16(4) {
			if seen[p] != 3 {
				t.Fatalf("12 messages came from partitions %v, want 3 from each", seen)
			}
		}
	})
}

func TestExpiredLocksAndSchedulesAreDeliveredWhenDue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		m := text("scheduled")
		m.ScheduledEnqueueTime = time.Now().Add(time.Minute + time.Second)
		b.send(t, "q", text("locked"), m)
		in := b.receive(t, "q", core.PeekLock, 3)
		if got := bodies(in.take()); got != "locked" {
			t.Fatalf("at once: got %q", got)
		}
		time.Sleep(time.Minute)
		if got := in.take(); bodies(got) != "locked" || got[0].DeliveryCount != 1 {
			t.Fatalf("after a minute: got %q, want the message whose lock expired", bodies(got))
		}
		time.Sleep(time.Second)
		if got := bodies(in.take()); got != "scheduled" {
			t.Fatalf("a second later: got %q", got)
		}
	})
}

func TestReceiveAndDeleteRemovesBeforeDelivery(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(8)...)
		in := b.receive(t, "q", core.ReceiveAndDelete, 10)
		got := in.take()
		if len(got) != 8 || !got[0].LockToken.IsZero() {
			t.Fatalf("got %d, token %v, want 8 without a lock", len(got), got[0].LockToken)
		}
		if ds, err := b.Peek(t.Context(), root, core.At("q"), nil, 0, 10); err != nil || len(ds) != 0 {
			t.Fatalf("peek: got %d, %v, want none left", len(ds), err)
		}
	})
}

func TestReceiveAndDeleteDropsMessagesWhoseLockWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.wrap(losing{b.store.Store})
		b.send(t, "q", text("lost"), text("kept"))
		in := b.receive(t, "q", core.ReceiveAndDelete, 2)
		if got := bodies(in.take()); got != "kept" {
			t.Fatalf("got %q, want the message that could be removed", got)
		}
		in.drain()
		synctest.Wait()
		if len(in.drains()) != 1 || in.drains()[0] != 1 {
			t.Fatalf("drained: got %v, want the credit of the lost message back", in.drains())
		}
	})
}

// losing is a store in which the lock of the first message of each partition is always lost.
type losing struct{ core.Store }

// Partition wraps the operations on a partition.
func (l losing) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: losingPartition{l.Store.Partition(r, p), l}}
}

// losingPartition is a partition of a losing.
type losingPartition struct {
	core.Partition
	losing
}

func (l losingPartition) Settle(ctx context.Context, ss []core.Settlement) []error {
	errs := l.Operations.Settle(ctx, ss)
	for i, s := range ss {
		if s.Token.Number() == 1 {
			errs[i] = core.LockLost
		}
	}
	return errs
}

func TestBothModesReceiveFromOneQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		locker := b.receive(t, "q", core.PeekLock, 10)
		deleter := b.receive(t, "q", core.ReceiveAndDelete, 10)
		b.send(t, "q", numbered(20)...)
		locked, deleted := locker.take(), deleter.take()
		if len(locked) != 10 || len(deleted) != 10 {
			t.Fatalf("got %d locked and %d deleted, want 10 each", len(locked), len(deleted))
		}
		if _, rt, err := b.Entity(t.Context(), root, "q"); err != nil || rt.Active != 10 {
			t.Fatalf("got %+v, %v, want the 10 that are locked", rt, err)
		}
	})
}

func TestDrainReturnsUnspentCreditAfterTheLastDelivery(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(6)...)
		in := b.receive(t, "q", core.PeekLock, 10)
		in.drain()
		if n := len(in.take()); n != 6 || len(in.drains()) != 1 || in.drains()[0] != 4 {
			t.Fatalf("got %d messages, drained %v, want 6 and [4]", n, in.drains())
		}
		b.send(t, "q", text("later"))
		if got := in.take(); len(got) != 0 {
			t.Fatalf("got %d messages without credit", len(got))
		}
		in.AddCredit(1, core.AnyMessage)
		if got := bodies(in.take()); got != "later" {
			t.Fatalf("after new credit: got %q", got)
		}
	})
}

func TestDrainWaitsForTheCallUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("slow"))
		b.store.holdLocks(func() { time.Sleep(time.Second) })
		in := b.receive(t, "q", core.PeekLock, 2)
		synctest.Wait()
		in.drain()
		synctest.Wait()
		if len(in.drains()) != 0 {
			t.Fatal("drained while a call was under way")
		}
		time.Sleep(5 * time.Second)
		if got := bodies(in.take()); got != "slow" || len(in.drains()) != 1 || in.drains()[0] != 1 {
			t.Fatalf("got %q, drained %v, want the message and [1]", got, in.drains())
		}
	})
}

func TestEveryDrainIsAnsweredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 5)
		in.drain()
		in.drain()
		synctest.Wait()
		in.drain()
		in.AddCredit(2, core.AnyMessage)
		in.drain()
		in.Close()
		in.drain()
		synctest.Wait()
		sum, answers := 0, in.drains()
		for _, n := range answers {
			sum += n
		}
		if len(answers) != 5 || sum != 7 {
			t.Fatalf("drained: got %v, want 5 answers that sum to 7", answers)
		}
	})
}

func TestSurplusOfALeavingReceiverGoesToOthersOrBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(4)...)
		b.store.holdLocks(func() { time.Sleep(time.Second) })
		leaver := b.receive(t, "q", core.PeekLock, 4)
		synctest.Wait()
		stayer := b.receive(t, "q", core.PeekLock, 1)
		leaver.Close()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		b.store.holdLocks(nil)
		time.Sleep(time.Second)
		if got := bodies(stayer.take()); got != "0" {
			t.Fatalf("the other receiver got %q", got)
		}
		if got := leaver.take(); len(got) != 0 {
			t.Fatalf("the closed receiver got %d", len(got))
		}
		stayer.AddCredit(10, core.AnyMessage)
		got := stayer.take()
		if bodies(got) != "1 2 3" || got[0].DeliveryCount != 0 {
			t.Fatalf("released messages: got %q, count %d, want them back uncounted", bodies(got), got[0].DeliveryCount)
		}
	})
}

func TestReceiverMayBeUsedFromItsOwnCallback(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", numbered(5)...)
		in := b.receive(t, "q", core.PeekLock, 0)
		in.hook = func(ds []core.Delivery) {
			if string(ds[0].Body.Bytes) == "3" {
				in.drain()
				return
			}
			in.AddCredit(1, core.AnyMessage)
		}
		in.AddCredit(1, core.AnyMessage)
		if got := bodies(in.take()); got != "0 1 2 3" || len(in.drains()) != 1 {
			t.Fatalf("got %q, drained %v", got, in.drains())
		}
	})
}

func TestDeliveredLocksOutliveTheReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("m"))
		in := b.receive(t, "q", core.PeekLock, 1)
		got := in.take()
		in.Close()
		in.Close()
		time.Sleep(30 * time.Second)
		settle(t, b, "q", core.Complete, got...)
	})
}

func TestAnOutageIsSurvived(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.store.fail(core.Busy, 1)
		in := b.receive(t, "q", core.PeekLock, 10)
		synctest.Wait()
		before := b.store.lockCalls()
		time.Sleep(time.Minute)
		if n := b.store.lockCalls() - before; n < 20 || n > 60 {
			t.Fatalf("%d tries in a minute, want about one in 2 s", n)
		}
		if err := errors.Join(sendTo(t, b, 1), sendTo(t, b, 2)); core.CodeOf(err) != core.Busy {
			t.Fatalf("send to the partition that is down: %v", err)
		}
		if got := bodies(in.take()); got != "to 2" {
			t.Fatalf("got %q, want what the healthy partition has", got)
		}
		b.store.fail(nil)
		if err := sendTo(t, b, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := bodies(in.take()); got != "to 1" {
			t.Fatalf("after the outage: got %q", got)
		}
	})
}

// sendTo sends a message with a key that belongs to the partition, of four.
func sendTo(t *testing.T, b *started, partition uint16) error {
	t.Helper()
	m := text(fmt.Sprint("to ", partition))
	m.PartitionKey = keyFor(partition)
	s := b.sender(t, "q")
	defer s.Close()
	return s.Send(t.Context(), each(m))[0].Err
}

func keyFor(partition uint16) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); core.PartitionOf(key, 4) == partition {
			return key
		}
	}
}

func TestExpiredMessagesReachAWaitingDeadLetterReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned, func(s *core.Settings) { s.DeadLetteringOnMessageExpiration = true })
		early := text("early")
		early.TimeToLive = 10 * time.Second
		b.send(t, "q", early)
		in := b.receive(t, "q/$DeadLetterQueue", core.PeekLock, 10)
		late := text("late")
		late.TimeToLive = 20 * time.Second
		b.send(t, "q", late)
		time.Sleep(10*time.Second + 10*time.Millisecond)
		if got := bodies(in.take()); got != "early" {
			t.Fatalf("after 10 s: got %q", got)
		}
		time.Sleep(10 * time.Second)
		got := in.take()
		if bodies(got) != "late" {
			t.Fatalf("after 20 s: got %q", bodies(got))
		}
		if reason, _ := got[0].Properties.Get(core.PropertyDeadLetterReason); reason != core.ReasonExpired {
			t.Fatalf("reason: got %v, want %v", reason, core.ReasonExpired)
		}
	})
}

func TestAbsentDeadLetterReceiverCausesNoSweeps(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q/$deadletterqueue", core.PeekLock, 1)
		time.Sleep(time.Minute)
		if b.store.sweepCalls() == 0 {
			t.Fatal("a waiting receiver: no sweep in a minute")
		}
		in.drain()
		synctest.Wait()
		before := b.store.sweepCalls()
		time.Sleep(time.Hour)
		if n := b.store.sweepCalls() - before; n != 0 {
			t.Fatalf("a receiver without credit: %d sweeps in an hour", n)
		}
	})
}

func TestStopClosesEverythingThatIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		var closed []error
		s, err := b.OpenSender(t.Context(), root, core.At("q"), func(err error) { closed = append(closed, err) })
		if err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, "q", core.PeekLock, 1)
		b.stop()
		if len(closed) != 1 || len(in.closures()) != 1 || !errors.Is(closed[0], core.Busy) || !errors.Is(in.closures()[0], core.Busy) {
			t.Fatalf("closed: sender %v, receiver %v, want %v once each", closed, in.closures(), core.Busy)
		}
		if a := s.Send(t.Context(), each(text("m"))); !errors.Is(a[0].Err, core.Busy) {
			t.Fatalf("send: got %v, want %v", a[0].Err, core.Busy)
		}
		if _, err := b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{}); !errors.Is(err, core.Busy) {
			t.Fatalf("open: got %v, want %v", err, core.Busy)
		}
		if _, err := b.Health(t.Context()); !errors.Is(err, core.Busy) {
			t.Fatalf("health: got %v, want %v", err, core.Busy)
		}
	})
}

func TestAnOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &faulty{Store: memory.New(memory.Options{})}
		b := newStarted(New(store, Options{Namespace: "ns", Logger: slog.New(slog.NewTextHandler(&log, nil))}), store, nil)
		b.create(t, "q")
		b.store.fail(core.Busy, 0)
		b.receive(t, "q", core.PeekLock, 1)
		time.Sleep(time.Minute)
		b.store.fail(nil)
		time.Sleep(time.Minute)
		b.Broker.stop()
		began := strings.Count(log.String(), "level=WARN")
		ended := strings.Count(log.String(), "answers again")
		if began != 1 || ended != 1 {
			t.Errorf("logged %d times that it began and %d that it ended, want once each:\n%s", began, ended, &log)
		}
	})
}

func TestADispatcherOutlivesItsLastReceiverForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		e, err := b.entity(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // a client that polls
			b.receive(t, "q", core.PeekLock, 1).Close()
			time.Sleep(delivery.IdleLife - time.Second)
			if !e.inUse() {
				t.Fatal("the dispatcher ended at once")
			}
		}
		time.Sleep(2 * time.Second)
		if e.inUse() {
			t.Fatal("the dispatcher does not end")
		}
		b.send(t, "q", text("m"))
		if got := bodies(b.receive(t, "q", core.PeekLock, 1).take()); got != "m" {
			t.Fatalf("a new receiver got %q", got)
		}
	})
}

func TestReceiversAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(memory.New(memory.Options{}), Options{Namespace: "ns"})
		defer b.stop()
		if _, err := b.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
			t.Fatal(err)
		}
		for i := range delivery.MaxReceivers {
			if _, err := b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{}); err != nil {
				t.Fatalf("receiver %d: %v", i, err)
			}
		}
		if _, err := b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{}); !errors.Is(err, core.QuotaExceeded) {
			t.Errorf("one more receiver: got %v, want %v", err, core.QuotaExceeded)
		}
		if _, err := b.OpenReceiver(t.Context(), root, core.At("q/$management"), core.ReceiverOptions{}); !errors.Is(err, core.NotAllowed) {
			t.Errorf("management node: got %v, want %v", err, core.NotAllowed)
		}
	})
}

func TestARemovedMessageGoesToAnotherReceiverIfItsOwnHasClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.wrap(slowSettle{b.store.Store})
		b.send(t, "q", text("m"))
		leaver := b.receive(t, "q", core.ReceiveAndDelete, 1)
		synctest.Wait()
		stayer := b.receive(t, "q", core.ReceiveAndDelete, 1)
		b.receive(t, "q", core.PeekLock, 0)
		leaver.Close()
		time.Sleep(2 * time.Second)
		if got := bodies(stayer.take()); got != "m" {
			t.Errorf("the other receiver got %q", got)
		}
		if got := leaver.take(); len(got) != 0 {
			t.Errorf("the closed receiver got %d", len(got))
		}
	})
}

// slowSettle is a store that takes a second to settle.
type slowSettle struct{ core.Store }

// Partition wraps the operations on a partition.
func (s slowSettle) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: slowSettlePartition{s.Store.Partition(r, p), s}}
}

// slowSettlePartition is a partition of a slowSettle.
type slowSettlePartition struct {
	core.Partition
	slowSettle
}

func (s slowSettlePartition) Settle(ctx context.Context, ss []core.Settlement) []error {
	time.Sleep(time.Second)
	return s.Operations.Settle(ctx, ss)
}
