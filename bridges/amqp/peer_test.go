package amqp

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// peer is a client that speaks frame by frame, and may misbehave.
type peer struct {
	tb  testing.TB
	nc  net.Conn
	dec wire.Decoder
	buf []byte
	n   int // bytes in buf
	off int // of them used
}

// newPeer makes a peer of nc, which the test closes in the end.
func newPeer(tb testing.TB, nc net.Conn) *peer {
	tb.Helper()
	tb.Cleanup(func() { _ = nc.Close() })
	return &peer{tb: tb, nc: nc, buf: make([]byte, 1<<20)}
}

// dialPeer connects a peer over TCP. It gives up on everything after some minutes.
func dialPeer(tb testing.TB, addr string) *peer {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
		tb.Fatal(err)
	}
	return newPeer(tb, nc)
}

// write sends bytes as they are.
func (p *peer) write(b []byte) {
	p.tb.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.tb.Fatalf("write: %v", err)
	}
}

// send sends performatives on a channel.
func (p *peer) send(channel uint16, ps ...wire.Performative) {
	p.tb.Helper()
	var b []byte
	for _, f := range ps {
		var err error
		if b, err = wire.AppendFrame(b, channel, f, nil); err != nil {
			p.tb.Fatal(err)
		}
	}
	p.write(b)
}

// transfer sends a message as one frame.
func (p *peer) transfer(t *wire.Transfer, payload []byte) {
	p.tb.Helper()
	b, err := wire.AppendFrame(nil, 0, t, payload)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.write(b)
}

// next returns the next frame, which is good until the next call, or nil at the end of the stream. Heartbeats count.
func (p *peer) next() (f *wire.Frame) {
	p.tb.Helper()
	for {
		frame, n, err := wire.CutFrame(p.buf[p.off:p.n], 1<<20)
		if err != nil {
			p.tb.Fatalf("the server sent nonsense: %v", err)
		}
		if n > 0 {
			p.off += n
			return &frame
		}
		if !p.fill() {
			return nil
		}
	}
}

func (p *peer) fill() bool {
	p.tb.Helper()
	p.n = copy(p.buf, p.buf[p.off:p.n])
	p.off = 0
	k, err := p.nc.Read(p.buf[p.n:])
	p.n += k
	if err != nil && !errors.Is(err, io.EOF) && k == 0 {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			p.tb.Fatalf("the server says nothing: %v", err)
		}
		return false
	}
	return k > 0
}

// receive returns the next performative, nil at the end of the stream.
func (p *peer) receive() (wire.Performative, []byte) {
	p.tb.Helper()
	for {
		f := p.next()
		if f == nil {
			return nil, nil
		}
		if len(f.Body) == 0 {
			continue
		}
		perf, payload, err := p.dec.Decode(f.Body)
		if err != nil {
			p.tb.Fatalf("the server sent nonsense: %v", err)
		}
		return perf, payload
	}
}

// await returns the next performative of type T; others are passed over. The zero T means the end of the stream.
func await[T wire.Performative](p *peer) T {
	p.tb.Helper()
	for {
		perf, _ := p.receive()
		if got, ok := perf.(T); ok || perf == nil {
			return got
		}
	}
}

// header exchanges protocol headers.
func (p *peer) header(layer wire.Protocol) {
	p.tb.Helper()
	p.write(wire.AppendProtocolHeader(nil, layer))
	for p.n-p.off < wire.ProtocolHeaderSize && p.fill() {
	}
	if got, err := wire.ParseProtocolHeader(p.buf[p.off:p.n]); err != nil || got != layer {
		p.tb.Fatalf("protocol header: got %v, %v", got, err)
	}
	p.off += wire.ProtocolHeaderSize
}

// open authenticates as root and begins a session on channel 0.
func (p *peer) open() {
	p.tb.Helper()
	p.header(wire.ProtocolSASL)
	await[*wire.SASLMechanisms](p)
	p.send(0, &wire.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00secret")})
	if o := await[*wire.SASLOutcome](p); o == nil || o.Code != wire.SASLOK {
		p.tb.Fatalf("SASL outcome: got %v", o)
	}
	p.header(wire.ProtocolAMQP)
	p.send(0, &wire.Open{ContainerID: "peer", Hostname: "ns.example"}, &wire.Begin{IncomingWindow: 1<<31 - 1, OutgoingWindow: 5000})
	await[*wire.Begin](p)
}

// openAnonymously begins a session on channel 0 and proves nothing.
func (p *peer) openAnonymously() {
	p.tb.Helper()
	p.header(wire.ProtocolAMQP)
	p.send(0, &wire.Open{ContainerID: "peer", Hostname: "ns.example"}, &wire.Begin{IncomingWindow: 1<<31 - 1, OutgoingWindow: 5000})
	await[*wire.Begin](p)
}

// attach attaches a link with handle as its number.
func (p *peer) attach(handle uint32, role wire.Role, address string) *wire.Attach {
	p.tb.Helper()
	a := &wire.Attach{
		Name: address + string(rune('0'+handle)), Handle: handle, Role: role,
		Source: &wire.Source{Address: value.Some(address)}, Target: &wire.Target{Address: value.Some(address)},
	}
	if role == wire.RoleSender {
		a.InitialDeliveryCount = value.Some(uint32(0))
	}
	p.send(0, a)
	return await[*wire.Attach](p)
}

// plainMessage is an encoded message with a body of n bytes.
func plainMessage(n int) []byte {
	b := wire.AppendProperties(nil, &wire.MessageProperties{MessageID: wire.ID{Kind: value.KindString, Raw: "id"}})
	return wire.AppendDataSection(b, make([]byte, n))
}
