package amqp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// messagesIn are the encoded messages of a response.
func messagesIn(t *testing.T, a answered) (encoded [][]byte) {
	t.Helper()
	list, _ := a.body.Get("messages")
	for _, entry := range list.(value.List) {
		m, _ := entry.(value.Map).Get("message")
		encoded = append(encoded, m.([]byte))
	}
	return encoded
}

// A peeked message has the end of its lock, the greatest date if that is its session's, and if it is deferred and not
// locked when it was enqueued.
func TestPeekedMessagesSayUntilWhenTheyAreLocked(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		peek := func(n *node, want ...any) {
			t.Helper()
			synctest.Wait()
			a := n.call(headersOf("peek-message", ""), value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(10)}})
			for i, m := range messagesIn(t, a) {
				if got := p.annotation(m, annLockedUntil); got != want[i] {
					t.Errorf("message %d: got %v, want %v", i+1, got, want[i])
				}
			}
		}
		enqueued := time.Now()
		s.putAt(t, "plain", "", "1", "2", "3")
		p.attach(0, wire.RoleReceiver, "plain")
		p.flowTo(0, 0, 0, 2, false)
		tr, _ := p.receiveTransfer()
		first := tr.DeliveryID.V
		p.receiveTransfer()
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: first, State: wire.Modified{UndeliverableHere: value.Some(true)}})
		await[*wire.Disposition](p)
		plain := p.node("plain/$management", 1)
		end := value.TimestampOf(enqueued.Add(time.Minute))
		peek(plain, value.TimestampOf(enqueued), end, nil)
		plain.call(headersOf("receive-by-sequence-number", ""), value.Map{
			{Key: "sequence-numbers", Value: value.ArrayOf([]int64{1})}, {Key: "receiver-settle-mode", Value: uint32(1)},
		})
		peek(plain, end, end, nil)

		s.put(t, "a", "1", "2")
		p.accept(3, "a")
		p.flowTo(3, 0, 0, 1, false)
		p.receiveTransfer()
		peek(p.node("q/$management", 4), greatestDate, nil)
	})
}

// What is received by number is locked like what comes on a link: in a session until the greatest date.
func TestDeferredMessagesOfASessionAreLockedUntilTheGreatestDate(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1")
		p, _ := s.connect(t)
		p.accept(0, "a")
		p.flowTo(0, 0, 0, 1, false)
		tr, _ := p.receiveTransfer()
		p.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: tr.DeliveryID.V, State: wire.Modified{UndeliverableHere: value.Some(true)}})
		await[*wire.Disposition](p)
		a := p.node("q/$management", 1).call(headersOf("receive-by-sequence-number", ""), value.Map{
			{Key: "sequence-numbers", Value: value.ArrayOf([]int64{1})}, {Key: "receiver-settle-mode", Value: uint32(1)}, {Key: "session-id", Value: "a"},
		})
		if got := p.annotation(messagesIn(t, a)[0], annLockedUntil); got != greatestDate {
			t.Errorf("%s: got %v, want %v", annLockedUntil, got, greatestDate)
		}
	})
}

// A message that was scheduled is received as scheduled, also by way of a topic; a peek tells where it stands. One whose
// time had come when it was sent never was.
func TestAReceivedMessageThatWasScheduledSaysSo(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		snd, err := s.OpenSender(t.Context(), rootIdentity, core.At("plain"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer snd.Close()
		scheduled := &core.Message{ScheduledEnqueueTime: time.Now().Add(time.Second)}
		if a := snd.Send(t.Context(), [][]*core.Message{{scheduled, {ScheduledEnqueueTime: time.Now()}}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		p, _ := s.connect(t)
		states := func(n *node) (states []any) {
			a := n.call(headersOf("peek-message", ""), value.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(10)}})
			for _, m := range messagesIn(t, a) {
				states = append(states, p.annotation(m, annMessageState))
			}
			return states
		}
		n := p.node("plain/$management", 1)
		if got := states(n); got[0] != int32(2) || got[1] != nil {
			t.Errorf("peeked before it is due: got %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := states(n); got[0] != nil || got[1] != nil {
			t.Errorf("peeked afterwards: got %v", got)
		}
		p.attach(0, wire.RoleReceiver, "plain")
		p.flowTo(0, 0, 0, 2, false)
		for _, want := range []any{nil, int32(2)} {
			if _, payload := p.receiveTransfer(); p.annotation(payload, annMessageState) != want {
				t.Errorf("received: got %v, want %v", p.annotation(payload, annMessageState), want)
			}
		}
	})
}

// A reason and a description keep the type that a management request gives them.
func TestDeadLetterReasonsByRequestKeepTheirType(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.putAt(t, "plain", "", "1")
		p, _ := s.connect(t)
		p.attach(0, wire.RoleReceiver, "plain")
		p.flowTo(0, 0, 0, 1, false)
		tr, _ := p.receiveTransfer()
		token := value.UUID(swapToken(core.LockToken(tr.DeliveryTag)))
		a := p.node("plain/$management", 1).call(headersOf("update-disposition", ""), value.Map{
			{Key: "lock-tokens", Value: value.ArrayOf([]value.UUID{token})},
			{Key: "disposition-status", Value: "suspended"},
			{Key: "deadletter-reason", Value: value.Timestamp(5)},
			{Key: "deadletter-description", Value: nil},
			{Key: "properties-to-modify", Value: value.Map{{Key: "DeadLetterErrorDescription", Value: int64(7)}}},
		})
		ds, err := s.Peek(t.Context(), rootIdentity, core.At("plain/$DeadLetterQueue"), nil, 1, 1)
		if a.get("statusCode") != int32(200) || err != nil || len(ds) != 1 {
			t.Fatalf("got %v, %d dead letters, %v", a.headers, len(ds), err)
		}
		reason, _ := ds[0].Properties.Get(core.PropertyDeadLetterReason)
		description, _ := ds[0].Properties.Get(core.PropertyDeadLetterDescription)
		if reason != value.Timestamp(5) || description != int64(7) {
			t.Errorf("got %T %v, %T %v, want a timestamp and a long", reason, reason, description, description)
		}
	})
}
