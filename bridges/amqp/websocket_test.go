package amqp

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// inWebSocket connects a peer to a bridge through a tunnel. It gives up on everything after some minutes.
func inWebSocket(tb testing.TB, addr string) *peer {
	tb.Helper()
	s := dialSocket(tb, addr)
	if err := s.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
		tb.Fatal(err)
	}
	return newPeer(tb, s)
}

// flooding is a broker whose queue never runs out of messages.
func flooding(tb testing.TB) bridges.Front {
	tb.Helper()
	b := newFakeBroker("q1")
	m, err := decodeMessage(plainMessage(100_000))
	if err != nil {
		tb.Fatal(err)
	}
	q := b.queues["q1"]
	q.forget, q.ready = true, []core.Delivery{{Message: m}}
	return b
}

// What is not AMQP, or comes too late, ends a connection inside of a WebSocket as
// it does one over TCP, and nothing of any connection is left behind.
func TestConnectionsInWebSocketsEndAsOverTCP(t *testing.T) { // not parallel: it counts goroutines
	before := runtime.NumGoroutine()
	bridge := New(flooding(t), &fakeAuthority{}, Options{HandshakeTimeout: 300 * time.Millisecond, WriteTimeout: 300 * time.Millisecond})
	addr, stop := tunnelTo(t, bridge)
	for name, story := range map[string]func(*testing.T, *peer){
		"orderly": func(t *testing.T, p *peer) {
			p.open()
			p.send(0, &wire.Close{})
			if c := await[*wire.Close](p); c == nil || c.Error != nil {
				t.Errorf("got %+v, want a close without error", c)
			}
		},
		"says nothing": func(*testing.T, *peer) {},
		"a header of nobody": func(_ *testing.T, p *peer) {
			p.write([]byte("MQTT\x00\x01\x00\x00"))
		},
		"a frame too large": func(t *testing.T, p *peer) {
			p.open()
			p.write([]byte{0x7f, 0xff, 0xff, 0xff, 2, 0, 0, 0})
			if c := await[*wire.Close](p); c == nil || c.Error == nil || c.Error.Condition != wire.CondFramingError {
				t.Errorf("got %+v, want %s", c, wire.CondFramingError)
			}
			p.send(0, &wire.Close{})
		},
		"a message of nonsense without end": func(_ *testing.T, p *peer) {
			p.open()
			for range 100 { // the connection may be gone before
				if _, err := p.nc.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"a text": func(t *testing.T, p *peer) {
			p.open()
			if _, err := p.nc.(*socket).Conn.Write([]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}); err != nil {
				t.Error(err)
			}
		},
		"vanishes": func(_ *testing.T, p *peer) {
			p.open()
			p.attach(0, wire.RoleReceiver, "q1")
			_ = p.nc.Close()
		},
		"reads nothing": func(t *testing.T, p *peer) {
			p.open()
			p.attach(0, wire.RoleReceiver, "q1")
			p.send(0, &wire.Flow{
				NextIncomingID: value.Some(uint32(0)), IncomingWindow: 1<<31 - 1, OutgoingWindow: 1,
				Handle: value.Some(uint32(0)), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(1_000_000)),
			})
			for len(bridge.opts.Clients.Census(t.Context())) > 0 { // it may do so for a while
				runtime.Gosched()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := inWebSocket(t, addr)
			story(t, p)
			if _, err := io.Copy(io.Discard, p.nc); err != nil && name != "vanishes" {
				t.Logf("the end: %v", err) // a reset, if something was not read
			}
			_ = p.nc.Close()
		})
	}
	stop()
	if !eventually.Within(time.Minute, func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines were there before, %d are left:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
	}
}

func TestConnectionsInWebSocketsDrain(t *testing.T) {
	t.Parallel()
	b := newFakeBroker("q1")
	addr, stop := tunnelTo(t, New(b, &fakeAuthority{}, Options{}))
	p := inWebSocket(t, addr)
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	await[*wire.Flow](p)
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	if c := await[*wire.Close](p); c == nil || c.Error == nil || c.Error.Condition != wire.CondConnectionForced {
		t.Errorf("got %+v, want %s", c, wire.CondConnectionForced)
	}
	p.send(0, &wire.Close{})
	<-stopped
}

func TestTheCensusNamesTheWebSocket(t *testing.T) {
	t.Parallel()
	bridge := New(newFakeBroker(), &fakeAuthority{}, Options{})
	addr, stop := tunnelTo(t, bridge)
	p := inWebSocket(t, addr)
	p.open()
	all := bridge.opts.Clients.Census(t.Context())
	if len(all) != 1 || all[0].Protocol != "amqp over websocket" || all[0].Peer != p.nc.LocalAddr().String() {
		t.Errorf("got %+v", all)
	}
	_ = p.nc.Close()
	stop()
}

// What is in flight when an operator closes a connection is done first.
func TestAConnectionIsClosedOnRequest(t *testing.T) {
	t.Parallel()
	bridge := New(newFakeBroker("q1"), &fakeAuthority{}, Options{})
	addr, stop := tunnelTo(t, bridge)
	defer stop()
	p := inWebSocket(t, addr)
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	await[*wire.Flow](p)
	id := bridge.opts.Clients.Census(t.Context())[0].ID
	if bridge.opts.Clients.Evacuate("another") || !bridge.opts.Clients.Evacuate(id) {
		t.Error("CloseConnection does not know which connections there are")
	}
	if c := await[*wire.Close](p); c == nil || c.Error == nil || c.Error.Condition != wire.CondConnectionForced || c.Error.Description != bridges.ForcedText {
		t.Errorf("got %+v, want %s", c, wire.CondConnectionForced)
	}
	p.send(0, &wire.Close{})
	_ = p.nc.Close()
}
