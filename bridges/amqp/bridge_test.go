package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestTooManyConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	faults := &faultLog{}
	addr := serve(t, newFakeBroker(), &fakeAuthority{}, Options{MaxConnections: 1, Logger: slog.New(faults)})
	first, stranger := dialPeer(t, addr), dialPeer(t, addr)
	stranger.header(wire.ProtocolSASL)
	first.open()
	await[*wire.SASLMechanisms](stranger)
	stranger.send(0, &wire.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00secret")})
	if o := await[*wire.SASLOutcome](stranger); o == nil || o.Code != wire.SASLSysTemp {
		t.Errorf("a further client proves who it is: got %v, want a temporary refusal", o)
	}
	if faults.seen.Load() {
		t.Error("the refusal is logged as an error of the gateway")
	}
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

// TestStrangersAreNotCountedAsConnections opens more connections than there may be
// and proves nothing: a client with a key still comes in.
func TestStrangersAreNotCountedAsConnections(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker(), &fakeAuthority{}, Options{MaxConnections: 2})
	for range 10 {
		p := dialPeer(t, addr)
		p.header(wire.ProtocolAMQP)
		p.send(0, &wire.Open{ContainerID: "stranger"})
		await[*wire.Open](p)
	}
	for range 2 {
		dialPeer(t, addr).open()
	}
}

// provable is a connection that notes that its client has proven who it is.
type provable struct {
	net.Conn
	proven chan struct{}
}

func (p provable) Proven() { close(p.proven) }

// TestListenerLearnsWhoHasAuthenticated tells by SASL PLAIN, and by a token.
func TestListenerLearnsWhoHasAuthenticated(t *testing.T) {
	t.Parallel()
	for how, prove := range map[string]func(*peer){
		"PLAIN": func(p *peer) { p.open() },
		"token": func(p *peer) {
			p.openAnonymously()
			p.node(cbsNode, 0).put(t, "listen", "sb://localhost/q1")
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			here, there := net.Pipe()
			proven := make(chan struct{})
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = New(newFakeBroker("q1"), &fakeAuthority{}, Options{}).ServeConn(t.Context(), provable{there, proven})
			}()
			p := newPeer(t, here)
			prove(p)
			<-proven
			_ = here.Close()
			<-served
		})
	}
}

// TestStrangersHoldLittle begins sessions, attaches links and sends incomplete
// requests until the bridge has enough.
func TestStrangersHoldLittle(t *testing.T) {
	t.Parallel()
	addr := serve(t, newFakeBroker("q1"), &fakeAuthority{}, Options{})
	for what, do := range map[string]func(*peer){
		"sessions": func(p *peer) {
			for channel := range uint16(strangerSessions) {
				p.send(channel+1, &wire.Begin{IncomingWindow: 1, OutgoingWindow: 1})
			}
		},
		"links": func(p *peer) {
			for handle := range uint32(2*strangerLinks + 1) {
				p.send(0, &wire.Attach{Name: fmt.Sprint(handle), Handle: handle, Role: wire.RoleReceiver, Source: &wire.Source{Address: value.Some("q1")}})
			}
		},
		"large frames before the open": nil,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, addr)
			want := wire.CondResourceLimitExceeded
			if do == nil {
				p.header(wire.ProtocolAMQP)
				p.send(0, &wire.Open{ContainerID: strings.Repeat("x", 9<<10)})
				want = wire.CondFramingError
			} else {
				p.openAnonymously()
				do(p)
			}
			if c := await[*wire.Close](p); c == nil || c.Error == nil || c.Error.Condition != want {
				t.Errorf("got %v, want a close with %s", c, want)
			}
		})
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := New(newFakeBroker(), &fakeAuthority{}, Options{}).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

// faultyBroker panics.
type faultyBroker struct{ *fakeBroker }

func (faultyBroker) OpenSender(context.Context, core.Identity, core.Address, func(error)) (core.Sender, error) {
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
