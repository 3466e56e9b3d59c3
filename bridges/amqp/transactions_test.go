package amqp

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// transactor is a peer with a coordinator link (handle 0), a link to send to q1 (handle 1) and one to receive from it
// (handle 2).
type transactor struct {
	*peer
	next  uint32 // delivery-id
	count uint32 // delivery-count of the link to receive from
}

func newTransactor(t *testing.T, o Options) *transactor {
	t.Helper()
	p := dialPeer(t, serveWhole(t, o, "q1", "q2"))
	p.open()
	x := &transactor{peer: p}
	x.attachAll()
	return x
}

// attachAll attaches the three links.
func (x *transactor) attachAll() {
	x.tb.Helper()
	x.send(0, &wire.Attach{Name: "k", Handle: 0, Coordinator: &wire.Coordinator{}, Source: &wire.Source{}, InitialDeliveryCount: value.Some(uint32(0))})
	if a := await[*wire.Attach](x.peer); a.Coordinator == nil {
		x.tb.Fatalf("attach to a coordinator: got %+v, want one with a coordinator", a)
	}
	await[*wire.Flow](x.peer)
	x.attach(1, wire.RoleSender, "q1")
	await[*wire.Flow](x.peer)
	x.attach(2, wire.RoleReceiver, "q1")
}

// deliver sends a message and returns what becomes of it.
func (x *transactor) deliver(handle uint32, state wire.DeliveryState, payload []byte) wire.DeliveryState {
	x.tb.Helper()
	id := x.next
	x.next++
	x.transfer(&wire.Transfer{Handle: handle, DeliveryID: value.Some(id), DeliveryTag: []byte{byte(id)}, MessageFormat: value.Some(uint32(0)), State: state}, payload)
	for {
		d := await[*wire.Disposition](x.peer)
		if d == nil {
			x.tb.Fatal("the connection has ended")
		}
		if d.Role == wire.RoleReceiver && d.First <= id && id <= d.Last.Or(d.First) {
			if !d.Settled {
				x.tb.Errorf("delivery %d: the answer is not settled", id)
			}
			return d.State
		}
	}
}

// declare begins a transaction and returns its id.
func (x *transactor) declare() []byte {
	x.tb.Helper()
	state := x.deliver(0, nil, []byte{0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45})
	d, ok := state.(wire.Declared)
	if !ok || len(d.TxnID) == 0 || len(d.TxnID) > 32 {
		x.tb.Fatalf("declare: got %#v", state)
	}
	return bytes.Clone(d.TxnID)
}

// discharge ends a transaction.
func (x *transactor) discharge(id []byte, fail bool) wire.DeliveryState {
	x.tb.Helper()
	flag := byte(0x42)
	if fail {
		flag = 0x41
	}
	b := []byte{0x00, 0x53, 0x77, 0x00, 0x53, 0x32, 0xc0, byte(len(id) + 4), 2, 0xa0, byte(len(id))}
	return x.deliver(0, nil, append(append(b, id...), flag))
}

// enlistSend sends a message to q1 in a transaction.
func (x *transactor) enlistSend(id []byte) wire.DeliveryState {
	x.tb.Helper()
	return x.deliver(1, wire.TransactionalState{TxnID: id}, plainMessage(10))
}

func (x *transactor) wantEnlisted(what string, got wire.DeliveryState, id []byte) {
	x.tb.Helper()
	state, ok := got.(wire.TransactionalState)
	if !ok || !bytes.Equal(state.TxnID, id) || state.Outcome != (wire.Accepted{}) {
		x.tb.Errorf("%s: got %#v, want accepted in the transaction", what, got)
	}
}

func (x *transactor) wantRejected(what string, got wire.DeliveryState, condition value.Symbol) {
	x.tb.Helper()
	r, ok := got.(wire.Rejected)
	if !ok || r.Error == nil || r.Error.Condition != condition || r.Error.Description == "" {
		x.tb.Errorf("%s: got %#v, want rejected with %s", what, got, condition)
	}
}

func (x *transactor) wantAccepted(what string, got wire.DeliveryState) {
	x.tb.Helper()
	if _, ok := got.(wire.Accepted); !ok {
		x.tb.Errorf("%s: got %#v, want accepted", what, got)
	}
}

// take receives up to n messages that are there, and returns their delivery-ids.
func (x *transactor) take(n uint32) (ids []uint32) {
	x.tb.Helper()
	x.send(0, &wire.Flow{
		Handle: value.Some(uint32(2)), LinkCredit: value.Some(n), Drain: true, DeliveryCount: value.Some(x.count),
		IncomingWindow: 1<<31 - 1, OutgoingWindow: 5000, NextIncomingID: value.Some(uint32(0)),
	})
	for {
		switch f, _ := x.receive(); f := f.(type) {
		case *wire.Transfer:
			ids = append(ids, f.DeliveryID.V)
		case *wire.Flow:
			if f.Handle.Set && f.Handle.V == 2 && f.LinkCredit.V == 0 {
				x.count = f.DeliveryCount.V
				return ids
			}
		case nil:
			x.tb.Fatal("the connection has ended")
		}
	}
}

func TestTransactionOfSendsAndSettlements(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	if x.deliver(1, nil, plainMessage(1)) != (wire.Accepted{}) {
		t.Fatal("send")
	}
	held := x.take(1)
	if len(held) != 1 {
		t.Fatalf("got %d messages, want 1", len(held))
	}
	id := x.declare()
	x.wantEnlisted("send", x.enlistSend(id), id)
	x.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: held[0], State: wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}})
	d := await[*wire.Disposition](x.peer)
	if d.Role != wire.RoleSender || !d.Settled {
		t.Errorf("complete: got %+v, want a settled answer", d)
	}
	x.wantEnlisted("complete", d.State, id)
	x.wantAccepted("commit", x.discharge(id, false))
	x.wantRejected("commit again", x.discharge(id, false), wire.CondTransactionUnknownID)
	x.wantRejected("send in what has ended", x.enlistSend(id), wire.CondTransactionUnknownID)
}

func TestTransactionIsInvisibleUntilItsCommit(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	rolled, kept := x.declare(), x.declare()
	x.wantEnlisted("send", x.enlistSend(rolled), rolled)
	x.wantEnlisted("send", x.enlistSend(kept), kept)
	if got := x.take(5); len(got) != 0 {
		t.Errorf("before the commit: got %d messages", len(got))
	}
	x.wantAccepted("roll back", x.discharge(rolled, true))
	x.wantAccepted("commit", x.discharge(kept, false))
	if got := x.take(5); len(got) != 1 {
		t.Errorf("after the commit: got %d messages, want 1", len(got))
	}
}

// AMQP 1.0 §4.4: a transaction in which something failed cannot be committed.
func TestTransactionWithARefusedOperationIsRejected(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	id := x.declare()
	x.wantEnlisted("send", x.enlistSend(id), id)
	x.wantRejected("nonsense", x.deliver(1, wire.TransactionalState{TxnID: id}, []byte{0x00, 0x53}), wire.CondDecodeError)
	if _, ok := x.discharge(id, false).(wire.Rejected); !ok {
		t.Error("commit: want it rejected")
	}
	if got := x.take(5); len(got) != 0 {
		t.Errorf("got %d messages", len(got))
	}
}

func TestTransactionsEndWithTheirLink(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	id := x.declare()
	x.wantEnlisted("send", x.enlistSend(id), id)
	x.send(0, &wire.Detach{Handle: 0, Closed: true})
	await[*wire.Detach](x.peer)
	x.wantRejected("send", x.enlistSend(id), wire.CondTransactionUnknownID)
}

func TestTransactionsAreBounded(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	for range maxTransactions {
		x.declare()
	}
	x.wantRejected("one more", x.deliver(0, nil, []byte{0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0x45}), wire.CondResourceLimitExceeded)
	x.wantRejected("nonsense", x.deliver(0, nil, plainMessage(3)), wire.CondArgumentError)
	x.wantRejected("distributed", x.deliver(0, nil, []byte{0x00, 0x53, 0x77, 0x00, 0x53, 0x31, 0xc0, 4, 1, 0xa1, 1, 'x'}), wire.CondNotImplemented)
}

func TestSendThroughATransferQueue(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	via := func(handle uint32, to any) *wire.Attach {
		x.send(0, &wire.Attach{
			Name: "via", Handle: handle, Source: &wire.Source{}, Target: &wire.Target{Address: value.Some("q2")}, InitialDeliveryCount: value.Some(uint32(0)),
			Properties: value.Map{{Key: transferDestination, Value: to}},
		})
		return await[*wire.Attach](x.peer)
	}
	a := via(3, "q1")
	if got, _ := a.Properties.Get(string(transferDestination)); got != "q1" || a.Target == nil {
		t.Fatalf("attach: got %+v, want the destination in its properties", a)
	}
	await[*wire.Flow](x.peer)
	x.wantAccepted("send", x.deliver(3, nil, plainMessage(1)))
	x.send(0, &wire.Flow{
		Handle: value.Some(uint32(2)), LinkCredit: value.Some(uint32(1)), DeliveryCount: value.Some(uint32(0)),
		IncomingWindow: 1<<31 - 1, OutgoingWindow: 5000, NextIncomingID: value.Some(uint32(0)),
	})
	if got := await[*wire.Transfer](x.peer); got == nil {
		t.Fatal("nothing arrived")
	}
	for handle, to := range map[uint32]any{4: "missing", 5: int32(5)} {
		x.send(0, &wire.Attach{
			Name: "bad", Handle: handle, Source: &wire.Source{}, Target: &wire.Target{Address: value.Some("q2")}, InitialDeliveryCount: value.Some(uint32(0)),
			Properties: value.Map{{Key: transferDestination, Value: to}},
		})
		if d := await[*wire.Detach](x.peer); d == nil || d.Error == nil {
			t.Errorf("destination %v: got %+v, want a refusal", to, d)
		}
	}
}

// lenient is a broker whose transactions take everything and do nothing.
type lenient struct{ *fakeBroker }

func (lenient) Begin() core.Transaction { return idle{} }

type idle struct{ core.Transaction }

func (idle) Send(context.Context, core.Identity, string, string, []*core.Message) error { return nil }

func (idle) Commit(context.Context) error { return nil }

func TestTransactionsTakeNoLongerThanTwoMinutes(t *testing.T) {
	t.Parallel()
	bubble(t, lenient{newFakeBroker("q1", "q2")}, &fakeAuthority{}, Options{IdleTimeout: time.Hour}, func(p *peer, _ context.CancelFunc) {
		p.open()
		x := &transactor{peer: p}
		x.attachAll()
		soon, late, unused := x.declare(), x.declare(), x.declare()
		x.wantEnlisted("send", x.enlistSend(soon), soon)
		x.wantEnlisted("send", x.enlistSend(late), late)
		time.Sleep(2*time.Minute - time.Second)
		x.wantEnlisted("a late send", x.enlistSend(soon), soon)
		x.wantAccepted("commit in time", x.discharge(soon, false))
		time.Sleep(2 * time.Second)
		x.wantRejected("send too late", x.enlistSend(late), wire.CondTransactionTimeout)
		x.wantRejected("commit too late", x.discharge(late, false), wire.CondTransactionTimeout)
		x.wantAccepted("commit of nothing", x.discharge(unused, false))
	})
}
