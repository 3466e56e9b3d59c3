package amqp

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

var _ bridges.Bridge = (*Bridge)(nil)

func TestTooManyConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker(), &fakeAuthority{}, Options{MaxConnections: 1})
	first := dialPeer(t, addr)
	first.header(wire.ProtocolAMQP)
	second := dialPeer(t, addr)
	if second.next() != nil {
		t.Error("second connection: got a frame, want the end")
	}
	_ = first.nc.Close()
	for range 100 { // until the first is forgotten
		p := dialPeer(t, addr)
		p.write(wire.AppendProtocolHeader(nil, wire.ProtocolAMQP))
		if p.fill() {
			return
		}
	}
	t.Error("no connection is served after the first has gone")
}

func TestServeFailsWithItsListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := New(newFakeBroker(), nil, &fakeAuthority{}, Options{}).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

// faultyBroker panics.
type faultyBroker struct{ *fakeBroker }

func (faultyBroker) OpenSender(context.Context, core.Identity, string, func(error)) (core.Sender, error) {
	panic("a fault")
}

func TestPanicEndsOneConnection(t *testing.T) {
	t.Parallel()
	addr := serve(t, faultyBroker{newFakeBroker("q1")}, &fakeAuthority{}, Options{})
	p := dialPeer(t, addr)
	p.open()
	p.send(0, &wire.Attach{Name: "x", Target: &wire.Target{Address: value.Some("q1")}})
	if c := await[*wire.Close](p); c == nil || c.Error == nil || c.Error.Condition != wire.CondInternalError {
		t.Errorf("close: got %+v, want %s", c, wire.CondInternalError)
	}
	other := dialPeer(t, addr)
	other.open()
	if a := other.attach(0, wire.RoleReceiver, "q1"); a.Source == nil {
		t.Error("another connection is not served")
	}
}
