package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

func TestPurge(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "locked", "a", "b", "c")
		r := e.receiver(queue)
		e.one(r)
		before := time.Now().Add(time.Minute)
		reply := e.manage(queue, "com.microsoft:batch-delete-messages", map[string]any{"message-count": int32(2), "enqueued-time-utc": before})
		if reply["message-count"] != int32(2) {
			e.Errorf("got %v, want 2 deleted", reply)
		}
		if left := e.peek(r, 0, 10); len(left) != 2 || string(left[1].Body) != "c" {
			e.Errorf("got %q, want the locked one and the last", bodies(left))
		}
	})
}

func TestSettledTransfersAreStoredWithoutAnAnswer(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		s, err := e.amqp().NewSender(e.ctx(), queue, &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()})
		if err != nil {
			e.Fatal(err)
		}
		for range 50 {
			if err := s.Send(e.ctx(), amqp.NewMessage(make([]byte, 100<<10)), nil); err != nil { // several frames each
				e.Fatal(err)
			}
		}
		e.take(e.receiver(queue), 50)
	})
}

func TestDrainAnswersWithoutMessages(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		r, err := e.amqp().NewReceiver(e.ctx(), queue, &amqp.ReceiverOptions{Credit: -1})
		if err != nil {
			e.Fatal(err)
		}
		if err := r.IssueCredit(10); err != nil {
			e.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(e.Context(), patience)
		defer cancel()
		if err := r.DrainCredit(ctx, nil); err != nil {
			e.Fatal(err)
		}
		e.send(queue, "x")
		short, stop := context.WithTimeout(e.Context(), silence)
		defer stop()
		if m, err := r.Receive(short, nil); err == nil {
			e.Errorf("got %q after all credit was drained", m.GetData())
		}
		e.one(e.receiver(queue))
	})
}

// TestSettledOutcomesSurviveTheEndOfTheirSession ends a session immediately after its last outcome. Only Redis lets
// outcomes wait for others.
func TestSettledOutcomesSurviveTheEndOfTheirSession(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(nil)
		for range 5 {
			e.send(queue, "a", "b", "c")
			s := e.amqp()
			r, err := s.NewReceiver(e.ctx(), queue, &amqp.ReceiverOptions{Credit: 3, SettlementMode: amqp.ReceiverSettleModeFirst.Ptr()})
			if err != nil {
				e.Fatal(err)
			}
			for range 3 {
				m, err := r.Receive(e.ctx(), nil)
				if err != nil {
					e.Fatal(err)
				}
				if err := r.AcceptMessage(e.ctx(), m); err != nil {
					e.Fatal(err)
				}
			}
			if err := s.Close(e.ctx()); err != nil {
				e.Fatal(err)
			}
			e.eventually("the queue is empty", func() bool { return e.runtime(queue).TotalMessageCount == 0 })
		}
	}, "redis/tcp")
}
