package amqp

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// frames sends frames at once, with a discharge where an element is of that type.
func (x *transactor) frames(all ...wire.Performative) {
	x.tb.Helper()
	var b []byte
	for _, f := range all {
		var payload []byte
		if d, ok := f.(*discharge); ok {
			f, payload = x.request(discharging(d.id, d.fail))
		}
		var err error
		if b, err = wire.AppendFrame(b, 0, f, payload); err != nil {
			x.tb.Fatal(err)
		}
	}
	x.write(b)
}

// request is a transfer to the coordinator.
func (x *transactor) request(payload []byte) (*wire.Transfer, []byte) {
	id := x.next
	x.next++
	return &wire.Transfer{DeliveryID: value.Some(id), DeliveryTag: []byte{byte(id)}, MessageFormat: value.Some(uint32(0))}, payload
}

type discharge struct {
	wire.Performative
	id   []byte
	fail bool
}

// settledWith returns the state with which a delivery is settled.
func (x *transactor) settledWith(delivery uint32) wire.DeliveryState {
	x.tb.Helper()
	for {
		d := await[*wire.Disposition](x.peer)
		if d == nil {
			x.tb.Fatal("the connection has ended")
		}
		if d.Role == wire.RoleSender && d.Settled && d.First <= delivery && delivery <= d.Last.Or(d.First) {
			return d.State
		}
	}
}

// TestOutcomeRightAfterADischargeIsJudgedAfterIt gives a delivery an outcome behind the discharge of the transaction in
// which it has one, without waiting for any answer.
func TestOutcomeRightAfterADischargeIsJudgedAfterIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		fail           bool
		waits, settled bool
		next           wire.DeliveryState
		want           any // the state that settles the delivery; nil: none is told
		left           int // messages afterwards
	}{
		{"complete after a rollback", true, true, false, wire.Accepted{}, wire.Accepted{}, 0},
		{"complete after a rollback, all at once", true, false, false, wire.Accepted{}, wire.Accepted{}, 0},
		{"abandon after a rollback", true, true, false, wire.Modified{DeliveryFailed: value.Some(true)}, wire.Modified{}, 1},
		{"complete after a rollback, settled", true, true, true, wire.Accepted{}, nil, 0},
		{"complete after a rollback, settled, all at once", true, false, true, wire.Accepted{}, nil, 0},
		{"release after a commit", false, true, false, wire.Released{}, wire.TransactionalState{}, 0},
		{"release after a commit, settled, all at once", false, false, true, wire.Released{}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newTransactor(t, Options{})
			for range 10 {
				x.deliver(1, nil, plainMessage(1))
				held := x.take(1)
				id := x.declare()
				first := &wire.Disposition{Role: wire.RoleReceiver, First: held[0], State: wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}}
				next := &wire.Disposition{Role: wire.RoleReceiver, First: held[0], Settled: c.settled, State: c.next}
				if c.waits {
					x.frames(first)
					x.wantProvisional("complete", held[0], id)
					x.frames(&discharge{id: id, fail: c.fail}, next)
				} else {
					x.frames(first, &discharge{id: id, fail: c.fail}, next)
				}
				if c.want != nil {
					if got := x.settledWith(held[0]); reflect.TypeOf(got) != reflect.TypeOf(c.want) {
						t.Fatalf("the next outcome: got %#v, want %#v", got, c.want)
					}
				}
				x.wantAccepted("a further transaction", x.discharge(x.declare(), false)) // what came before is done
				if got := x.take(2); len(got) != c.left {
					t.Fatalf("%d messages are left, want %d", len(got), c.left)
				} else if len(got) == 1 {
					x.dispose(got[0], wire.Accepted{})
					x.settledWith(got[0])
				}
			}
		})
	}
}

// A delivery may go from one transaction to the next without a wait.
func TestOutcomeInTheNextTransactionIsJudgedAfterTheFirst(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	x.deliver(1, nil, plainMessage(1))
	held := x.take(1)
	one, two := x.declare(), x.declare()
	accept := func(id []byte) *wire.Disposition {
		return &wire.Disposition{Role: wire.RoleReceiver, First: held[0], State: wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}}
	}
	x.frames(accept(one), &discharge{id: one, fail: true}, accept(two), &discharge{id: two})
	if got, ok := x.settledWith(held[0]).(wire.TransactionalState); !ok || got.Outcome != (wire.Accepted{}) {
		t.Errorf("got %#v, want it accepted in the second transaction", got)
	}
	if got := x.take(1); len(got) != 0 {
		t.Errorf("%d messages are left, want none", len(got))
	}
}

// A completion that a transaction refuses makes the message available at once, however the client gave it.
func TestOutcomeThatATransactionRefusesAbandonsTheDelivery(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprint("settled ", settled), func(t *testing.T) {
			t.Parallel()
			addr, b := serveBroker(t, Options{})
			partitioned := core.DefaultSettings(core.Queue)
			partitioned.EnablePartitioning = true
			if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, "q1", partitioned, nil); err != nil {
				t.Fatal(err)
			}
			p := dialPeer(t, addr)
			p.open()
			x := &transactor{peer: p}
			x.attachAll()
			for key := range 20 { // of several partitions
				m := wire.AppendSection(nil, wire.DescMessageAnnotations, value.AppendString(value.AppendSymbol([]byte{0xc1, byte(len(annPartitionKey) + 7), 2}, annPartitionKey), fmt.Sprintf("%02d", key)))
				x.wantAccepted("send", x.deliver(1, nil, append(m, plainMessage(1)...)))
			}
			held := x.take(20)
			id := x.declare()
			refused := 0
			for _, delivery := range held {
				x.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: delivery, Settled: settled, State: wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}})
				if settled {
					continue
				}
				if d := await[*wire.Disposition](p); d.Settled {
					refused++
					x.wantRejected("the outcome", d.State, wire.CondNotAllowed)
				}
			}
			x.wantRejected("commit", x.discharge(id, false), wire.CondNotAllowed)
			again := len(x.take(20))
			if !settled && (refused == 0 || again != refused) || settled && again != len(held) {
				t.Errorf("%d messages are available of %d, of which %d were refused to a client that settles: %v", again, len(held), refused, settled)
			}
		})
	}
}

// What the client asked for before the detach is carried out in the session that its link held.
func TestSessionStaysLockedUntilItsRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		for i := range 20 {
			n := p.node("q/$management", 2)
			n.replyTo = "q/$management"
			p.accept(0, "a")
			body := value.Map{{Key: "session-id", Value: "a"}, {Key: "session-state", Value: fmt.Appendf(nil, "%d", i)}}
			n.sendWith(headersOf("set-session-state", ""), body, &wire.Detach{Handle: 0, Closed: true})
			if a := n.answer(); a.get("statusCode") != int32(200) {
				t.Fatalf("round %d: got %v, want the state to be set", i, a.headers)
			}
			p.send(0, &wire.Detach{Handle: 2, Closed: true}, &wire.Detach{Handle: 3, Closed: true})
			await[*wire.Detach](p)
			await[*wire.Detach](p)
		}
	})
}

func TestSessionStaysLockedUntilItsTransactionsAreDischarged(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		s.put(t, "a", "1")
		p, _ := s.connect(t)
		x := &transactor{peer: p}
		x.send(0, &wire.Attach{Name: "k", Handle: 0, Coordinator: &wire.Coordinator{}, Source: &wire.Source{}, InitialDeliveryCount: value.Some(uint32(0))})
		await[*wire.Flow](p)
		p.accept(2, "a")
		p.flowTo(2, 0, 0, 1, false)
		tr, _ := p.receiveTransfer()
		id := x.declare()
		x.frames(
			&wire.Disposition{Role: wire.RoleReceiver, First: tr.DeliveryID.V, State: wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}},
			&discharge{id: id}, &wire.Detach{Handle: 2, Closed: true})
		for {
			if d := await[*wire.Disposition](p); d == nil || d.Role == wire.RoleReceiver {
				x.wantAccepted("commit", d.State)
				break
			}
		}
		p.accept(3, "a")
	})
}
