package amqp

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
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
	return x.deliverOn(0, handle, state, payload)
}

func (x *transactor) deliverOn(channel uint16, handle uint32, state wire.DeliveryState, payload []byte) wire.DeliveryState {
	x.tb.Helper()
	id := x.sendDelivery(channel, handle, state, payload)
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

func (x *transactor) sendDelivery(channel uint16, handle uint32, state wire.DeliveryState, payload []byte) uint32 {
	x.tb.Helper()
	id := x.next
	x.next++
	b, err := wire.AppendFrame(nil, channel, &wire.Transfer{
		Handle: handle, DeliveryID: value.Some(id), DeliveryTag: []byte{byte(id)}, MessageFormat: value.Some(uint32(0)), State: state,
	}, payload)
	if err != nil {
		x.tb.Fatal(err)
	}
	x.write(b)
	return id
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
	return x.deliver(0, nil, discharging(id, fail))
}

func (x *transactor) sendDischarge(id []byte, fail bool) {
	x.tb.Helper()
	x.sendDelivery(0, 0, nil, discharging(id, fail))
}

func discharging(id []byte, fail bool) []byte {
	flag := byte(0x42)
	if fail {
		flag = 0x41
	}
	b := []byte{0x00, 0x53, 0x77, 0x00, 0x53, 0x32, 0xc0, byte(len(id) + 4), 2, 0xa0, byte(len(id))}
	return append(append(b, id...), flag)
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
	x.wantProvisional("complete", held[0], id)
	x.wantEnlisted("commit: settled", x.dischargeSettling(id, held[0]), id)
	x.wantRejected("commit again", x.discharge(id, false), wire.CondTransactionUnknownID)
	x.wantRejected("send in what has ended", x.enlistSend(id), wire.CondTransactionUnknownID)
}

// wantProvisional reads the answer to an outcome in a transaction. Before it, the answer to an
// earlier discharge may come, for which the test did not wait.
func (x *transactor) wantProvisional(what string, delivery uint32, id []byte) {
	x.tb.Helper()
	d := await[*wire.Disposition](x.peer)
	for d != nil && d.Role == wire.RoleReceiver {
		d = await[*wire.Disposition](x.peer)
	}
	if d == nil || d.Settled || d.First != delivery {
		x.tb.Fatalf("%s: got %+v, want an answer for delivery %d that does not settle", what, d, delivery)
	}
	x.wantEnlisted(what, d.State, id)
}

// dischargeSettling commits, and returns with which state that settles a delivery.
func (x *transactor) dischargeSettling(id []byte, delivery uint32) wire.DeliveryState {
	x.tb.Helper()
	request := x.next
	x.sendDischarge(id, false)
	var settled wire.DeliveryState
	for committed := false; !committed || settled == nil; {
		switch d := await[*wire.Disposition](x.peer); {
		case d == nil:
			x.tb.Fatal("the connection has ended")
		case d.Role == wire.RoleSender && d.First == delivery && d.Settled:
			settled = d.State
		case d.Role == wire.RoleReceiver && d.First == request:
			x.wantAccepted("commit", d.State)
			committed = true
		}
	}
	return settled
}

// dispose gives a delivery an outcome, without settling it.
func (x *transactor) dispose(delivery uint32, state wire.DeliveryState) {
	x.tb.Helper()
	x.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: delivery, State: state})
}

// AMQP 1.0 §4.4.3: after a rollback the delivery is still the client's, which may settle it in any way.
func TestOutcomeInATransactionWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]wire.DeliveryState{
		"completed": wire.Accepted{}, "abandoned": wire.Modified{DeliveryFailed: value.Some(true)}, "released": wire.Released{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransactor(t, Options{})
			x.deliver(1, nil, plainMessage(1))
			held := x.take(1)
			for range 2 {
				id := x.declare()
				x.dispose(held[0], wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}})
				x.wantProvisional("complete", held[0], id)
				x.dispose(held[0], wire.TransactionalState{TxnID: id, Outcome: wire.Released{}})
				if d := await[*wire.Disposition](x.peer); d.Settled {
					t.Errorf("second outcome: got %+v, want an answer that does not settle", d)
				} else {
					x.wantRejected("second outcome", d.State, wire.CondMessageLockLost)
				}
				x.wantAccepted("roll back", x.discharge(id, true))
			}
			if got := x.take(1); len(got) != 0 {
				t.Fatalf("after the rollback: %d messages are available, want none: the client has it", len(got))
			}
			x.dispose(held[0], again)
			if d := await[*wire.Disposition](x.peer); !d.Settled || d.First != held[0] || reflect.TypeOf(d.State) != reflect.TypeOf(again) {
				t.Errorf("outcome after the rollback: got %+v, want %#v, settled", d, again)
			}
			want := 1
			if name == "completed" {
				want = 0
			}
			if got := x.take(1); len(got) != want {
				t.Errorf("afterwards: %d messages are available, want %d", len(got), want)
			}
		})
	}
}

// Qpid JMS settles each delivery along with its outcome in the transaction, and expects what it rolls back to come again.
func TestSettledMessagesAreRedeliveredAfterARollback(t *testing.T) {
	t.Parallel()
	for name, dispositions := range map[string]int{"at once": 1, "later": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransactor(t, Options{})
			x.deliver(1, nil, plainMessage(1))
			held := x.take(1)
			id := x.declare()
			state := wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}
			if dispositions == 2 {
				x.dispose(held[0], state)
				x.wantProvisional("complete", held[0], id)
			}
			x.send(0, &wire.Disposition{Role: wire.RoleReceiver, First: held[0], Settled: true, State: state})
			x.wantAccepted("roll back", x.discharge(id, true))
			for deadline := time.Now().Add(5 * time.Second); ; {
				if got := x.take(1); len(got) == 1 {
					break
				} else if time.Now().After(deadline) {
					t.Fatal("the message does not come again")
				}
			}
		})
	}
}

func TestDeliveriesOfTransactionsThatEndWithTheirLink(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	x.deliver(1, nil, plainMessage(1))
	held := x.take(1)
	id := x.declare()
	x.dispose(held[0], wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}})
	x.wantProvisional("complete", held[0], id)
	x.send(0, &wire.Detach{Handle: 0, Closed: true})
	await[*wire.Detach](x.peer)
	x.dispose(held[0], wire.Released{})
	if d := await[*wire.Disposition](x.peer); !d.Settled || d.State != (wire.Released{}) {
		t.Errorf("release: got %+v, want released", d)
	}
	if got := x.take(1); len(got) != 1 {
		t.Errorf("%d messages are available, want 1", len(got))
	}
}

// A transaction with a settlement that was refused for other reasons than its lock leaves the delivery to the client.
func TestRefusedOutcomeInATransactionLeavesTheDelivery(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	x.deliver(1, nil, plainMessage(1))
	held := x.take(1)
	x.dispose(held[0], wire.TransactionalState{TxnID: []byte("unknown"), Outcome: wire.Accepted{}})
	if d := await[*wire.Disposition](x.peer); d.Settled {
		t.Errorf("complete in an unknown transaction: got %+v, want an answer that does not settle", d)
	} else {
		x.wantRejected("complete in an unknown transaction", d.State, wire.CondTransactionUnknownID)
	}
	x.dispose(held[0], wire.Accepted{})
	if d := await[*wire.Disposition](x.peer); !d.Settled || d.State != (wire.Accepted{}) {
		t.Errorf("complete: got %+v, want accepted", d)
	}
}

// attachRefused attaches a link and returns why it was refused, nil if it was not.
func (x *transactor) attachRefused(channel uint16, handle uint32, role wire.Role, address string) *wire.Error {
	x.tb.Helper()
	a := &wire.Attach{Name: fmt.Sprint("link", handle), Handle: handle, Role: role, Source: &wire.Source{}, Target: &wire.Target{}}
	if role == wire.RoleReceiver {
		a.Source.Address = value.Some(address)
	} else {
		a.Target.Address, a.InitialDeliveryCount = value.Some(address), value.Some(uint32(0))
	}
	x.send(channel, a)
	reply := await[*wire.Attach](x.peer)
	if reply.Source != nil && reply.Target != nil {
		return nil
	}
	d := await[*wire.Detach](x.peer)
	why := *d.Error
	x.send(channel, &wire.Detach{Handle: handle, Closed: true})
	return &why
}

// The first entity of an AMQP session with a coordinator is the only one that may be received from there.
func TestTransactionsReceiveFromOneEntity(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{}) // it has used q1
	x.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	await[*wire.Begin](x.peer)
	handle := uint32(10)
	for _, c := range []struct {
		name    string
		channel uint16
		role    wire.Role
		address string
		refused bool
	}{
		{"a receiver of another", 0, wire.RoleReceiver, "q2", true},
		{"a receiver of its dead letters", 0, wire.RoleReceiver, "q2/$deadletterqueue", true},
		{"responses of its management node", 0, wire.RoleReceiver, "q2/$management", true},
		{"a sender to another", 0, wire.RoleSender, "q2", false},
		{"a second receiver", 0, wire.RoleReceiver, "Q1", false},
		{"a receiver of dead letters", 0, wire.RoleReceiver, "q1/$deadletterqueue", false},
		{"responses of the management node", 0, wire.RoleReceiver, "q1/$management", false},
		{"a receiver of another in a session without coordinator", 1, wire.RoleReceiver, "q2", false},
		{"and of a third", 1, wire.RoleReceiver, "q1", false},
	} {
		handle++
		why := x.attachRefused(c.channel, handle, c.role, c.address)
		switch {
		case !c.refused && why != nil:
			t.Errorf("%s: refused with %v", c.name, why)
		case c.refused && (why == nil || why.Condition != wire.CondNotAllowed ||
			!strings.HasPrefix(why.Description, "Local transactions cannot span multiple top-level entities such as queue or topic")):
			t.Errorf("%s: got %v, want it refused in these words", c.name, why)
		}
	}
}

func TestARefusedLinkIsNotTheFirstOfItsSession(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serveWhole(t, Options{}, "q1"))
	p.open()
	x := &transactor{peer: p}
	x.send(0, &wire.Attach{Name: "k", Handle: 0, Coordinator: &wire.Coordinator{}, Source: &wire.Source{}, InitialDeliveryCount: value.Some(uint32(0))})
	await[*wire.Attach](x.peer)
	if x.attachRefused(0, 1, wire.RoleReceiver, "missing") == nil {
		t.Fatal("a missing entity was found")
	}
	if why := x.attachRefused(0, 2, wire.RoleReceiver, "q1"); why != nil {
		t.Errorf("after a missing entity: refused with %v", why)
	}
}

func TestStrictTransactionsAreOfOneEntity(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		x := newTransactor(t, Options{StrictTransactions: strict})
		x.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
		await[*wire.Begin](x.peer)
		if err := x.attachRefused(1, 1, wire.RoleSender, "q2"); err != nil {
			t.Fatal(err)
		}
		await[*wire.Flow](x.peer)
		if err := x.attachRefused(0, 3, wire.RoleSender, "q2"); err != nil {
			t.Fatal(err)
		}
		await[*wire.Flow](x.peer)
		id := x.declare()
		x.wantEnlisted("send", x.enlistSend(id), id)
		x.wantEnlisted("send to another entity in the coordinator's session", x.deliver(3, wire.TransactionalState{TxnID: id}, plainMessage(1)), id)
		elsewhere := x.deliverOn(1, 1, wire.TransactionalState{TxnID: id}, plainMessage(1))
		if !strict {
			x.wantEnlisted("send to another entity in another session", elsewhere, id)
			x.wantAccepted("commit", x.discharge(id, false))
			continue
		}
		x.wantRejected("send to another entity in another session", elsewhere, wire.CondNotAllowed)
		x.wantRejected("commit", x.discharge(id, false), wire.CondNotAllowed)
	}
}

// management attaches to the management node of q1 with handles 3 and 4.
func (x *transactor) management() *node {
	n := x.node("q1/$management", 3)
	n.next = 1000
	return n
}

// ask sends a request in a transaction and returns the response, which must have that status.
func (x *transactor) ask(n *node, id []byte, operation string, status int32, body value.Map) answered {
	x.tb.Helper()
	n.state = wire.TransactionalState{TxnID: id}
	a := n.call(value.Map{{Key: "operation", Value: "com.microsoft:" + operation}}, body)
	if got := a.get("statusCode"); got != status {
		x.tb.Errorf("%s: got %v %v, want %d", operation, got, a.get("statusDescription"), status)
	}
	return a
}

func TestSchedulingTakesPartInATransaction(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	n := x.management()
	due := wire.AppendHeader(nil, &wire.Header{})
	raw, err := value.Append(nil, value.Map{{Key: value.Symbol(annScheduled), Value: value.TimestampOf(time.Now().Add(time.Hour))}})
	if err != nil {
		t.Fatal(err)
	}
	due = append(wire.AppendSection(due, wire.DescMessageAnnotations, raw), plainMessage(1)...)
	messages := value.Map{{Key: "messages", Value: value.List{value.Map{{Key: "message", Value: due}}}}}
	for _, commit := range []bool{false, true} {
		id := x.declare()
		numbers, _ := x.ask(n, id, "schedule-message", 200, messages).body.Get("sequence-numbers")
		given, ok := numbers.(value.Array)
		if !ok || len(given.Values) != 1 {
			t.Fatalf("schedule: got numbers %v", numbers)
		}
		x.wantAccepted("discharge", x.discharge(id, !commit))
		n.state = nil
		a := n.call(value.Map{{Key: "operation", Value: "com.microsoft:cancel-scheduled-message"}}, value.Map{{Key: "sequence-numbers", Value: given}})
		want := int32(200)
		if !commit {
			want = 404
		}
		if got := a.get("statusCode"); got != want {
			t.Errorf("cancel after the end, committed %t: got %v, want %d", commit, got, want)
		}
	}
}

// Clients name the transaction in flight in every request to a management node: most have nothing to do with it.
func TestOtherRequestsWorkInATransaction(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	x.deliver(1, nil, plainMessage(1))
	x.send(0, &wire.Flow{
		Handle: value.Some(uint32(2)), LinkCredit: value.Some(uint32(1)), DeliveryCount: value.Some(uint32(0)),
		IncomingWindow: 1<<31 - 1, OutgoingWindow: 5000, NextIncomingID: value.Some(uint32(0)),
	})
	tr := await[*wire.Transfer](x.peer)
	token := value.UUID(swapToken(core.LockToken(tr.DeliveryTag)))
	n := x.management()
	id := x.declare()
	x.ask(n, id, "renew-lock", 200, value.Map{{Key: "lock-tokens", Value: value.ArrayOf([]value.UUID{token})}})
	x.ask(n, id, "peek-message", 200, value.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(1)}})
	x.ask(n, id, "receive-by-sequence-number", 404, value.Map{{Key: "sequence-numbers", Value: value.ArrayOf([]int64{77})}, {Key: "receiver-settle-mode", Value: uint32(1)}})
	complete := value.Map{{Key: "lock-tokens", Value: value.ArrayOf([]value.UUID{token})}, {Key: "disposition-status", Value: "completed"}}
	x.ask(n, id, "update-disposition", 200, complete)
	x.wantAccepted("commit", x.discharge(id, false))
	id = x.declare()
	if a := x.ask(n, id, "update-disposition", 410, complete); a.get("errorCondition") != value.Symbol("com.microsoft:message-lock-lost") {
		t.Errorf("complete what is settled: got %v", a.headers)
	}
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
	x.wantRejected("nonsense", x.deliver(0, nil, plainMessage(3)), wire.CondNotAllowed)
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

func (idle) Send(context.Context, core.Identity, core.Address, core.Address, []*core.Message) error {
	return nil
}

func (idle) Commit(context.Context) error { return nil }

func (idle) Rollback(context.Context) {}

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
		x.wantRejected("send too late", x.enlistSend(late), wire.CondTransactionUnknownID)
		x.wantRejected("commit too late", x.discharge(late, false), wire.CondTransactionUnknownID)
		x.wantAccepted("commit of nothing", x.discharge(unused, false))
	})
}

func TestSessionStateTakesPartInATransaction(t *testing.T) {
	t.Parallel()
	whole(t, Options{}, func(t *testing.T, s *fixture) {
		p, _ := s.connect(t)
		x := &transactor{peer: p}
		x.send(0, &wire.Attach{Name: "k", Handle: 0, Coordinator: &wire.Coordinator{}, Source: &wire.Source{}, InitialDeliveryCount: value.Some(uint32(0))})
		await[*wire.Attach](p)
		p.accept(1, "a") // link s1
		n := p.node("q/$management", 3)
		n.next = 1000
		call := func(operation string, id []byte, state any) answered {
			t.Helper()
			n.state = nil
			if id != nil {
				n.state = wire.TransactionalState{TxnID: id}
			}
			a := n.call(headersOf(operation, "s1"), value.Map{{Key: "session-id", Value: "a"}, {Key: "session-state", Value: state}})
			if a.get("statusCode") != int32(200) {
				t.Errorf("%s: got %v", operation, a.headers)
			}
			return a
		}
		want := func(when string, id []byte, want string) {
			t.Helper()
			got, _ := call("get-session-state", id, nil).body.Get("session-state")
			if state, _ := got.([]byte); string(state) != want {
				t.Errorf("%s: got state %q, want %q", when, state, want)
			}
		}
		call("set-session-state", nil, []byte("before"))
		gone := x.declare()
		call("set-session-state", gone, []byte("inside"))
		call("renew-session-lock", gone, nil)
		want("before the end", gone, "before")
		x.wantAccepted("roll back", x.discharge(gone, true))
		want("after the rollback", nil, "before")
		kept := x.declare()
		call("set-session-state", kept, []byte("inside"))
		x.wantAccepted("commit", x.discharge(kept, false))
		want("after the commit", nil, "inside")
	})
}

// A client may send operations and the commit without waiting for answers. If one of them is refused, or comes after the
// gateway has ended its link, there is nothing to commit: else the others would take effect without it.
func TestTransactionWithAMissingOperationIsRejected(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(x *transactor, b *broker.Broker, state wire.TransactionalState){
		"a message on a link that has ended": func(x *transactor, b *broker.Broker, state wire.TransactionalState) {
			x.loses(b)
			x.sendDelivery(0, 1, state, plainMessage(10))
		},
		"an outcome on a link that has ended": func(x *transactor, b *broker.Broker, state wire.TransactionalState) {
			sendTo(x.tb, b, "q1")
			ids := x.take(1)
			x.loses(b)
			x.dispose(ids[0], wire.TransactionalState{TxnID: state.TxnID, Outcome: wire.Accepted{}})
		},
		"an outcome of no delivery": func(x *transactor, _ *broker.Broker, state wire.TransactionalState) {
			x.dispose(99, wire.TransactionalState{TxnID: state.TxnID, Outcome: wire.Accepted{}})
		},
		"outcomes of which one has no delivery": func(x *transactor, b *broker.Broker, state wire.TransactionalState) {
			sendTo(x.tb, b, "q1")
			ids := x.take(1)
			x.send(0, &wire.Disposition{
				Role: wire.RoleReceiver, First: ids[0], Last: value.Some(ids[0] + 1), State: wire.TransactionalState{TxnID: state.TxnID, Outcome: wire.Accepted{}},
			})
		},
		"a transactional state without an outcome": func(x *transactor, b *broker.Broker, state wire.TransactionalState) {
			sendTo(x.tb, b, "q1")
			x.dispose(x.take(1)[0], state)
		},
		"a message that is too large": func(x *transactor, _ *broker.Broker, state wire.TransactionalState) {
			id := x.next
			x.next++
			for part := range 6 {
				t := &wire.Transfer{Handle: 1, More: part < 5, State: state}
				if part == 0 {
					t.DeliveryID, t.DeliveryTag = value.Some(id), []byte{1}
				}
				x.transfer(t, make([]byte, 60<<10))
			}
		},
		"a request that cannot be read": func(x *transactor, _ *broker.Broker, state wire.TransactionalState) {
			x.attach(4, wire.RoleSender, "q1/$management")
			await[*wire.Flow](x.peer)
			x.sendDelivery(0, 4, state, []byte{0x00, 0x53})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, b := serveBroker(t, Options{})
			for _, q := range []string{"q1", "q2"} {
				if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, q, core.DefaultSettings(core.Queue), nil); err != nil {
					t.Fatal(err)
				}
			}
			p := dialPeer(t, addr)
			p.open()
			x := &transactor{peer: p}
			x.attachAll()
			x.attach(3, wire.RoleSender, "q2")
			await[*wire.Flow](p)
			send := func(id []byte) {
				x.wantEnlisted("send to q2", x.deliver(3, wire.TransactionalState{TxnID: id}, plainMessage(10)), id)
			}
			id := x.declare()
			send(id)
			lose(x, b, wire.TransactionalState{TxnID: id})
			if got := x.discharge(id, false); got == (wire.Accepted{}) {
				t.Error("the commit is accepted")
			}
			if n := len(peekAt(t, b, "q2")); n != 0 {
				t.Errorf("q2 holds %d messages", n)
			}
			other := x.declare()
			send(other)
			x.wantAccepted("commit of another transaction", x.discharge(other, false))
		})
	}
}

// loses deletes q1, and waits until the gateway has ended the links to it.
func (x *transactor) loses(b *broker.Broker) {
	x.tb.Helper()
	if err := b.DeleteEntity(x.tb.Context(), rootIdentity, "q1"); err != nil {
		x.tb.Fatal(err)
	}
	await[*wire.Detach](x.peer)
	await[*wire.Detach](x.peer)
}

func sendTo(tb testing.TB, b *broker.Broker, queue string) {
	tb.Helper()
	s, err := b.OpenSender(tb.Context(), rootIdentity, core.At(queue), nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	if err := s.Send(tb.Context(), [][]*core.Message{{{Body: core.Body{Bytes: []byte("m")}}}})[0].Err; err != nil {
		tb.Fatal(err)
	}
}

func peekAt(tb testing.TB, b *broker.Broker, queue string) []core.Delivery {
	tb.Helper()
	ds, err := b.Peek(tb.Context(), rootIdentity, core.At(queue), nil, 0, 10)
	if err != nil {
		tb.Fatal(err)
	}
	return ds
}

// What is in flight when the gateway stops ends with its commit, or not at all.
func TestATransactionThatEndsWhileTheGatewayStopsIsWhole(t *testing.T) {
	t.Parallel()
	b := &counted{fakeBroker: newFakeBroker("q1")}
	bubble(t, b, &fakeAuthority{}, Options{}, func(p *peer, stop context.CancelFunc) {
		b.hold = make(chan struct{}) // of this bubble
		p.open()
		x := &transactor{peer: p}
		x.send(0, &wire.Attach{Name: "k", Handle: 0, Coordinator: &wire.Coordinator{}, Source: &wire.Source{}, InitialDeliveryCount: value.Some(uint32(0))})
		await[*wire.Attach](p)
		await[*wire.Flow](p)
		x.attach(1, wire.RoleSender, "q1")
		await[*wire.Flow](p)
		id := x.declare()
		x.wantEnlisted("send", x.enlistSend(id), id)
		x.sendDelivery(0, 1, nil, plainMessage(1)) // the gateway waits for it
		synctest.Wait()
		stop()
		synctest.Wait()
		sent := x.sendDelivery(0, 1, wire.TransactionalState{TxnID: id}, plainMessage(1))
		committed := x.next
		x.sendDischarge(id, false)
		enlisted, accepted := false, false
		for range 2 {
			d := await[*wire.Disposition](p)
			_, rejected := d.State.(wire.Rejected)
			enlisted = enlisted || d.First == sent && !rejected
			accepted = accepted || d.First == committed && !rejected
		}
		if accepted != (enlisted && b.sent == 2) {
			t.Errorf("committed: %v, with %d of 2 messages; the second was enlisted: %v", accepted, b.sent, enlisted)
		}
		close(b.hold)
	})
}

// counted is a broker whose transactions count the messages that are sent in them.
type counted struct {
	*fakeBroker
	sent int
}

func (c *counted) Begin() core.Transaction { return &counting{counted: c} }

type counting struct {
	core.Transaction
	*counted
}

func (c *counting) Send(context.Context, core.Identity, core.Address, core.Address, []*core.Message) error {
	c.sent++
	return nil
}

func (c *counting) Commit(context.Context) error { return nil }

func (c *counting) Rollback(context.Context) {}

// Only the first frame of a message must say which transaction it belongs to.
func TestAMessageOfSeveralFramesTakesPartInATransaction(t *testing.T) {
	t.Parallel()
	addr, b := serveBroker(t, Options{})
	if _, err := b.CreateEntity(t.Context(), rootIdentity, core.Queue, "q1", core.DefaultSettings(core.Queue), nil); err != nil {
		t.Fatal(err)
	}
	p := dialPeer(t, addr)
	p.open()
	x := &transactor{peer: p}
	x.attachAll()
	id := x.declare()
	delivery, payload := x.next, plainMessage(200<<10)
	x.next++
	state := wire.DeliveryState(wire.TransactionalState{TxnID: id})
	tag := []byte{1}
	for len(payload) > 0 {
		n := min(len(payload), 50<<10)
		f := &wire.Transfer{Handle: 1, DeliveryTag: tag, More: n < len(payload), State: state}
		if tag != nil {
			f.DeliveryID = value.Some(delivery)
		}
		x.transfer(f, payload[:n])
		payload, state, tag = payload[n:], nil, nil
	}
	d := await[*wire.Disposition](x.peer)
	if d == nil || d.First != delivery {
		t.Fatalf("got %+v, want the outcome of %d", d, delivery)
	}
	x.wantEnlisted("a large message", d.State, id)
	x.wantAccepted("commit", x.discharge(id, false))
	if got := peekAt(t, b, "q1"); len(got) != 1 {
		t.Errorf("got %d messages, want 1", len(got))
	}
}

func TestOperationOnAnEndedSessionFailsItsTransaction(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	x.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	await[*wire.Begin](x.peer)
	id := x.declare()
	x.wantEnlisted("send", x.enlistSend(id), id)
	x.sendDelivery(1, 7, wire.TransactionalState{TxnID: id}, plainMessage(1)) // no such link: the session ends
	await[*wire.End](x.peer)
	if _, ok := x.discharge(id, false).(wire.Rejected); !ok {
		t.Error("commit: want it rejected")
	}
	id = x.declare()
	x.wantEnlisted("send", x.enlistSend(id), id)
	x.sendDelivery(1, 7, wire.TransactionalState{TxnID: id}, plainMessage(1))
	if _, ok := x.discharge(id, false).(wire.Rejected); !ok {
		t.Error("commit of what was sent on the ended session: want it rejected")
	}
	if got := x.take(5); len(got) != 0 {
		t.Errorf("got %d messages", len(got))
	}
}
