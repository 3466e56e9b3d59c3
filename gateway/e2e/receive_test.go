package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// shortLock is the shortest lock a queue may have.
func shortLock() *admin.QueueProperties {
	return &admin.QueueProperties{LockDuration: new("PT5S")}
}

func TestCompleteRemoves(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a", "b", "c")
		r := e.receiver(queue)
		ms := e.take(r, 3)
		if c := e.runtime(queue); c.ActiveMessageCount != 3 {
			e.Errorf("locked messages count as active: got %d, want 3", c.ActiveMessageCount)
		}
		e.complete(r, ms...)
		e.nothing(r)
		if c := e.runtime(queue); c.TotalMessageCount != 0 || c.SizeInBytes != 0 {
			e.Errorf("got %d messages of %d bytes, want none", c.TotalMessageCount, c.SizeInBytes)
		}
		e.wantLockLost(queue, ms[0])
	})
}

func TestReceiveAndDelete(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a", "b")
		r := e.receiverWith(queue, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		got := e.take(r, 2)
		if want := []string{"a", "b"}; !slices.Equal(bodies(got), want) {
			e.Errorf("got %q, want %q", bodies(got), want)
		}
		if got[0].LockedUntil != nil {
			e.Errorf("a message received and deleted is locked until %v", got[0].LockedUntil)
		}
		e.eventually("the queue is empty", func() bool { return e.runtime(queue).TotalMessageCount == 0 })
	})
}

func TestAWaitingReceiverIsWoken(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		r := e.receiver(queue)
		got := beside(e, func() string {
			ms, err := r.ReceiveMessages(e.ctx(), 1, nil)
			if err != nil {
				return err.Error()
			}
			return string(ms[0].Body)
		})
		e.hasReceiver(queue)
		e.send(queue, "hello")
		if body := <-got; body != "hello" {
			e.Errorf("got %s, want hello", body)
		}
	})
}

func TestAbandonReturnsWithChanges(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		s := e.sender(queue)
		e.post(s, &azservicebus.Message{Body: []byte("first"), ApplicationProperties: map[string]any{"kept": "x", "changed": int64(1)}})
		e.post(s, &azservicebus.Message{Body: []byte("second")})
		r := e.receiver(queue)
		m := e.one(r)
		err := r.AbandonMessage(e.ctx(), m, &azservicebus.AbandonMessageOptions{
			PropertiesToModify: map[string]any{"changed": int64(2), "added": "y"},
		})
		if err != nil {
			e.Fatal(err)
		}
		again := e.one(r)
		if string(again.Body) != "first" || again.DeliveryCount != 2 || *again.SequenceNumber != *m.SequenceNumber {
			e.Errorf("got %q, delivery %d, number %d; want the first again, delivery 2", again.Body, again.DeliveryCount, *again.SequenceNumber)
		}
		if p := again.ApplicationProperties; len(p) != 3 || p["kept"] != "x" || p["changed"] != int64(2) || p["added"] != "y" {
			e.Errorf("got properties %v, want kept x, changed 2, added y", p)
		}
		if again.LockToken == m.LockToken {
			e.Error("both deliveries have the same lock token")
		}
		e.wantLockLost(queue, m)
		e.complete(r, again)
	})
}

func TestDeferredMessagesComeByNumberOnly(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a", "b")
		r := e.receiver(queue)
		m := e.one(r)
		err := r.DeferMessage(e.ctx(), m, &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"why": "later"}})
		if err != nil {
			e.Fatal(err)
		}
		e.complete(r, e.one(r))
		e.nothing(r)
		if browsed := e.peek(r, 0, 5); len(browsed) != 1 || browsed[0].State != azservicebus.MessageStateDeferred {
			e.Errorf("peek: got %v, want one deferred", browsed)
		}
		if _, err := r.ReceiveDeferredMessages(e.ctx(), []int64{*m.SequenceNumber, 99}, nil); err == nil {
			e.Error("an unknown number beside a known one was not refused")
		}
		receive := func() *azservicebus.ReceivedMessage {
			e.Helper()
			ms, err := r.ReceiveDeferredMessages(e.ctx(), []int64{*m.SequenceNumber}, nil)
			if err != nil || len(ms) != 1 {
				e.Fatalf("receive deferred: %v %v", ms, err)
			}
			return ms[0]
		}
		d := receive()
		if d.DeliveryCount != 2 {
			e.Errorf("deferring did not count: delivery %d, want 2", d.DeliveryCount)
		}
		if string(d.Body) != "a" || d.ApplicationProperties["why"] != "later" || d.State != azservicebus.MessageStateDeferred || *d.SequenceNumber != *m.SequenceNumber {
			e.Errorf("got %q in state %d with %v", d.Body, d.State, d.ApplicationProperties)
		}
		if err := r.AbandonMessage(e.ctx(), d, nil); err != nil {
			e.Fatal(err)
		}
		e.nothing(r) // abandoned, it stays deferred
		d = receive()
		if d.DeliveryCount != 3 {
			e.Errorf("abandoning a deferred message did not count: delivery %d, want 3", d.DeliveryCount)
		}
		e.complete(r, d)
		if c := e.runtime(queue); c.TotalMessageCount != 0 {
			e.Errorf("%d messages are left", c.TotalMessageCount)
		}
	})
}

func TestDeadLetteringKeepsReasonAndMessage(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		want := full()
		e.post(e.sender(queue), want)
		r := e.receiver(queue)
		m := e.one(r)
		err := r.DeadLetterMessage(e.ctx(), m, &azservicebus.DeadLetterOptions{
			Reason: new("broken"), ErrorDescription: new("cannot be read"), PropertiesToModify: map[string]any{"seen-by": "test"},
		})
		if err != nil {
			e.Fatal(err)
		}
		e.nothing(r)
		if c := e.runtime(queue); c.DeadLetterMessageCount != 1 || c.ActiveMessageCount != 0 || c.TotalMessageCount != 1 {
			e.Errorf("got %d dead letters, %d active, %d in all; want 1, 0, 1", c.DeadLetterMessageCount, c.ActiveMessageCount, c.TotalMessageCount)
		}
		dlq := e.deadLetters(queue)
		if browsed := e.peek(dlq, 0, 5); len(browsed) != 1 {
			e.Errorf("peek the dead letters: got %d", len(browsed))
		}
		d := e.one(dlq)
		if d.DeadLetterReason == nil || *d.DeadLetterReason != "broken" || d.DeadLetterErrorDescription == nil || *d.DeadLetterErrorDescription != "cannot be read" {
			e.Errorf("got reason %v and description %v", d.DeadLetterReason, d.DeadLetterErrorDescription)
		}
		if string(d.Body) != string(want.Body) || d.MessageID != *want.MessageID || *d.SequenceNumber != *m.SequenceNumber ||
			d.ApplicationProperties["seen-by"] != "test" || d.ApplicationProperties["text"] != "grüße" || *d.Subject != "subject" {
			e.Errorf("the dead letter is not the message that was sent: %+v", d)
		}
		if err := dlq.AbandonMessage(e.ctx(), d, nil); err != nil {
			e.Fatal(err)
		}
		again := e.one(dlq)
		if again.DeliveryCount != d.DeliveryCount {
			e.Errorf("abandoning a dead letter raised its count from %d to %d", d.DeliveryCount, again.DeliveryCount)
		}
		e.complete(dlq, again)
		e.nothing(dlq)
	})
}

func TestALockExpires(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(shortLock())
		e.send(queue, "a")
		first, second := e.receiver(queue), e.receiver(queue)
		e.peek(second, 0, 1) // opens its link before the lock runs
		m := e.one(first)
		e.nothing(second)
		e.advance(5 * time.Second)
		again := e.one(second)
		if again.DeliveryCount != 2 || again.EnqueuedTime.After(*m.EnqueuedTime) {
			e.Errorf("got delivery %d, enqueued at %v; want the second of what was enqueued at %v", again.DeliveryCount, again.EnqueuedTime, m.EnqueuedTime)
		}
		e.wantCode(first.CompleteMessage(e.ctx(), m, nil), azservicebus.CodeLockLost)
		e.wantCode(first.RenewMessageLock(e.ctx(), m, nil), azservicebus.CodeLockLost)
		e.complete(second, again) // the lost lock changed nothing
		e.nothing(second)
	})
}

func TestARenewedLockHolds(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		queue := e.queue(&admin.QueueProperties{LockDuration: new("PT10S")})
		e.send(queue, "a")
		r, other := e.receiver(queue), e.receiver(queue)
		e.peek(other, 0, 1) // opens its link before the lock runs
		m := e.one(r)
		before := *m.LockedUntil
		e.advance(7 * time.Second)
		if err := r.RenewMessageLock(e.ctx(), m, nil); err != nil {
			e.Fatal(err)
		}
		if got := m.LockedUntil.Sub(before); got < 6*time.Second || got > 10*time.Second {
			e.Errorf("renewing after 7 s moved the end of the lock by %v", got)
		}
		e.advance(4 * time.Second)
		e.nothing(other)
		e.complete(r, m)
	})
}

func TestTooManyDeliveriesDeadLetter(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{MaxDeliveryCount: new(int32(3))})
		e.send(queue, "poison")
		r := e.receiver(queue)
		for n := range uint32(3) {
			m := e.one(r)
			if m.DeliveryCount != n+1 {
				e.Errorf("got delivery %d, want %d", m.DeliveryCount, n+1)
			}
			if err := r.AbandonMessage(e.ctx(), m, nil); err != nil {
				e.Fatal(err)
			}
		}
		e.nothing(r)
		d := e.one(e.deadLetters(queue))
		if d.DeadLetterReason == nil || *d.DeadLetterReason != "MaxDeliveryCountExceeded" ||
			d.DeadLetterErrorDescription == nil || *d.DeadLetterErrorDescription != "Message could not be consumed after 3 delivery attempts." {
			e.Errorf("got reason %v and description %v", d.DeadLetterReason, d.DeadLetterErrorDescription)
		}
	})
}

func TestClosingAReceiverCountsNoDelivery(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a")
		c := e.client()
		r, err := c.NewReceiverForQueue(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		m := e.one(r)
		if err := r.Close(e.ctx()); err != nil {
			e.Fatal(err)
		}
		other := e.receiver(queue)
		if err := other.CompleteMessage(e.ctx(), m, nil); err != nil {
			e.Errorf("settling by token over another link: %v", err)
		}
		e.nothing(other)
	})
}

func TestPeekBrowsesEverythingWithoutLocking(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "active", "locked", "deferred")
		s, r := e.sender(queue), e.receiver(queue)
		ms := e.take(r, 3)
		if err := r.AbandonMessage(e.ctx(), ms[0], nil); err != nil {
			e.Fatal(err)
		}
		if err := r.DeferMessage(e.ctx(), ms[2], nil); err != nil {
			e.Fatal(err)
		}
		if _, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{{Body: []byte("scheduled")}}, time.Now().Add(time.Hour), nil); err != nil {
			e.Fatal(err)
		}
		got := e.peek(r, 0, 10)
		var states []azservicebus.MessageState
		for _, m := range got {
			states = append(states, m.State)
			// A message under lock says until when, one that is deferred when it was enqueued.
			if locked := string(m.Body) == "locked" || string(m.Body) == "deferred"; (m.LockedUntil != nil) != locked {
				e.Errorf("peeked %q is locked until %v", m.Body, m.LockedUntil)
			}
		}
		want := []azservicebus.MessageState{
			azservicebus.MessageStateActive, azservicebus.MessageStateActive, azservicebus.MessageStateDeferred, azservicebus.MessageStateScheduled,
		}
		if !slices.Equal(bodies(got), []string{"active", "locked", "deferred", "scheduled"}) || !slices.Equal(states, want) {
			e.Errorf("got %q in states %v, want %v", bodies(got), states, want)
		}
		if rest := e.peek(r, *got[2].SequenceNumber, 10); !slices.Equal(bodies(rest), []string{"deferred", "scheduled"}) {
			e.Errorf("from number %d: got %q", *got[2].SequenceNumber, bodies(rest))
		}
		if two := e.peek(r, 0, 2); len(two) != 2 {
			e.Errorf("peek of 2: got %d", len(two))
		}
		if none := e.peek(r, *got[3].SequenceNumber+1, 10); len(none) != 0 {
			e.Errorf("peek past the end: got %q", bodies(none))
		}
	})
}

func TestOnePeekReturnsAtMost250Messages(t *testing.T) {
	onEachEngine(t, func(e *env) {
		for _, session := range []bool{false, true} {
			queue := e.queue(&admin.QueueProperties{RequiresSession: &session})
			s := e.sender(queue)
			batch, err := s.NewMessageBatch(e.ctx(), nil)
			for i := 0; i < 260 && err == nil; i++ {
				err = batch.AddMessage(&azservicebus.Message{Body: []byte{byte(i)}, SessionID: new("s")}, nil)
			}
			if err == nil {
				err = s.SendMessageBatch(e.ctx(), batch, nil)
			}
			if err != nil {
				e.Fatal(err)
			}
			peek := e.receiver(queue).PeekMessages
			if session {
				r, err := e.client().AcceptSessionForQueue(e.ctx(), queue, "s", nil)
				if err != nil {
					e.Fatal(err)
				}
				peek = r.PeekMessages
			}
			if ms, err := peek(e.ctx(), 1000, nil); err != nil || len(ms) != 250 {
				e.Errorf("peek of 1,000 with sessions %t: got %d messages, error %v; want 250", session, len(ms), err)
			}
		}
	})
}

func TestAReceiverTakesFromAllPartitions(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
		want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b"}
		e.send(queue, want...)
		a, b := e.receiver(queue), e.receiver(queue)
		got := bodies(e.take(a, 7))
		got = append(got, bodies(e.take(b, 5))...)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			e.Errorf("got %q, want %q", got, want)
		}
		seen := map[string]bool{}
		r := e.receiver(queue)
		e.eventually("peek has shown every message", func() bool {
			for from, p := int64(0), int64(0); p < 4; p++ {
				for _, m := range e.peek(r, max(from, p<<48), 20) {
					seen[string(m.Body)] = true
				}
			}
			return len(seen) == len(want)
		})
	})
}
