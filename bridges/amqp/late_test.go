package amqp

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// TestLateFrameLeavesTheConnectionAlone closes links and their session as .NET's client does when it loses its race: a
// frame of the session follows its end.
func TestLateFrameLeavesTheConnectionAlone(t *testing.T) {
	t.Parallel()
	whole, err := wire.AppendFrame(nil, 1, &wire.Transfer{Handle: 1, DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, plainMessage(40_000))
	if err != nil {
		t.Fatal(err)
	}
	for name, late := range map[string]func(p *peer){
		"detach": func(p *peer) { p.send(1, &wire.Detach{Handle: 1, Closed: true}) },
		"end":    func(p *peer) { p.send(1, &wire.End{}) },
		"flow": func(p *peer) {
			p.send(1, &wire.Flow{NextIncomingID: value.Some(uint32(0)), Handle: value.Some(uint32(1)), LinkCredit: value.Some(uint32(1))})
		},
		"disposition": func(p *peer) {
			p.send(1, &wire.Disposition{Role: wire.RoleReceiver, Settled: true, State: wire.Accepted{}})
		},
		"transfer":       func(p *peer) { p.write(whole) },
		"transfer begun": func(p *peer) { p.write(whole[:5000]); p.write(whole[5000:]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
			p.open()
			p.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
			await[*wire.Begin](p)
			for handle := range uint32(2) {
				p.send(1, &wire.Attach{
					Name: string(rune('a' + handle)), Handle: handle, InitialDeliveryCount: value.Some(uint32(0)),
					Source: &wire.Source{}, Target: &wire.Target{Address: value.Some("q1")},
				})
				await[*wire.Attach](p)
			}
			p.send(1, &wire.Detach{Handle: 0, Closed: true}, &wire.End{})
			await[*wire.End](p)
			late(p)
			p.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
			if b := await[*wire.Begin](p); b == nil {
				t.Fatal("the connection has ended")
			}
			p.attach(0, wire.RoleSender, "q1")
			await[*wire.Flow](p)
			p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(0)), DeliveryTag: []byte{1}}, plainMessage(1))
			if d := await[*wire.Disposition](p); d == nil || d.State != (wire.Accepted{}) {
				t.Errorf("a message afterwards: got %+v, want it to be accepted", d)
			}
		})
	}
}

func TestOutcomeThatComesTooLateFailsItsTransaction(t *testing.T) {
	t.Parallel()
	x := newTransactor(t, Options{})
	x.send(1, &wire.Begin{IncomingWindow: 100, OutgoingWindow: 100})
	await[*wire.Begin](x.peer)
	x.send(1, &wire.End{})
	await[*wire.End](x.peer)
	id := x.declare()
	x.send(1, &wire.Disposition{Role: wire.RoleReceiver, State: wire.TransactionalState{TxnID: id, Outcome: wire.Accepted{}}})
	x.wantRejected("commit without it", x.discharge(id, false), wire.CondResourceLocked)
}

func TestClosedConnectionIsLoggedWithItsReasonAndProduct(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, newFakeBroker("q1"), &fakeAuthority{}, o, func(p *peer, _ context.CancelFunc) {
		p.header(wire.ProtocolAMQP)
		p.send(0, &wire.Open{ContainerID: "peer", Properties: value.Map{{Key: value.Symbol("product"), Value: "tester"}}})
		p.send(3, &wire.End{})
		c := await[*wire.Close](p)
		if c == nil || c.Error == nil || !strings.HasPrefix(c.Error.Description, "channel 3 has no session TrackingId:") {
			t.Errorf("got %+v, want the reason and a tracking id", c)
		}
	})
	if got := log.String(); !strings.Contains(got, "level=INFO") || !strings.Contains(got, "product=tester") || !strings.Contains(got, "channel 3 has no session") {
		t.Errorf("log: got %q, want the reason and the product", got)
	}
}

// The SDK for Java before version 7 writes delivery-tags of 36 bytes, where AMQP 1.0 §2.8.7 allows 32.
func TestDeliveryTagMayBeLongerThanItShould(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}))
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	for id, length := range []int{36, 256} {
		p.transfer(&wire.Transfer{DeliveryID: value.Some(uint32(id)), DeliveryTag: bytes.Repeat([]byte("x"), length)}, plainMessage(1))
		if d := await[*wire.Disposition](p); d == nil || d.State != (wire.Accepted{}) {
			t.Fatalf("a tag of %d bytes: got %+v, want the message accepted", length, d)
		}
	}
}
