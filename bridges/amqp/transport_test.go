package amqp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/websocket"
	"github.com/crosstown-mq/crosstown/core/value"
)

// transports are ways for a peer to reach a bridge.
var transports = []struct {
	name    string
	connect func(testing.TB, *Bridge) net.Conn
}{
	{"pipe", overPipe},
	{"tcp", overTCP},
	{"websocket", func(b testing.TB, bridge *Bridge) net.Conn { return overWebSocket(b, bridge, false) }},
	{"websocket by frames", func(b testing.TB, bridge *Bridge) net.Conn { return overWebSocket(b, bridge, true) }},
}

// overEach runs a benchmark over each transport, with a bridge in front of broker.
func overEach(b *testing.B, broker func() bridges.Front, run func(*testing.B, *peer)) {
	b.Helper()
	for _, t := range transports {
		b.Run(t.name, func(b *testing.B) {
			p := newPeer(b, t.connect(b, New(broker(), &fakeAuthority{}, Options{})))
			p.open()
			b.ReportAllocs()
			run(b, p)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/msg")
		})
	}
}

func overPipe(b testing.TB, bridge *Bridge) net.Conn {
	b.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bridge.ServeConn(context.Background(), there)
	}()
	b.Cleanup(func() { _ = here.Close(); <-done })
	return here
}

func overTCP(b testing.TB, bridge *Bridge) net.Conn {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bridge.Serve(ctx, ln)
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = nc.Close(); cancel(); <-done })
	return nc
}

// overWebSocket is a client that costs as little as it can: it masks with zeros. A message holds what is written at once
// or, as those of most clients do, one frame.
func overWebSocket(b testing.TB, bridge *Bridge, byFrames bool) net.Conn {
	b.Helper()
	addr, stop := tunnelTo(b, bridge)
	b.Cleanup(stop)
	s := dialSocket(b, addr)
	b.Cleanup(func() { _ = s.Close() })
	s.byFrames = byFrames
	return s
}

// tunnelTo serves a bridge through a tunnel. stop returns when all connections have ended.
func tunnelTo(tb testing.TB, bridge *Bridge) (addr string, stop func()) {
	tb.Helper()
	tunnel := websocket.NewTunnel(bridge.ServeConn, websocket.TunnelOptions{})
	server := httptest.NewServer(tunnel)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tunnel.Run(ctx)
	}()
	return server.Listener.Addr().String(), func() { cancel(); <-done; server.Close() }
}

// dialSocket connects to a tunnel.
func dialSocket(tb testing.TB, addr string) *socket {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	s := &socket{Conn: nc, in: bufio.NewReaderSize(nc, 64<<10)}
	if err := s.upgrade(websocket.TunnelPath); err != nil {
		tb.Fatal(err)
	}
	return s
}

// socket is the client's side of a WebSocket.
type socket struct {
	net.Conn
	in       *bufio.Reader
	left     int // bytes of the message that is read
	byFrames bool
	out      []byte // room
}

func (s *socket) upgrade(path string) error {
	r, err := http.NewRequest(http.MethodGet, "http://"+s.RemoteAddr().String()+path, nil)
	if err != nil {
		return err
	}
	for name, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "amqp",
	} {
		r.Header.Set(name, v)
	}
	if err := r.Write(s.Conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(s.in, r)
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(answer.Status)
	}
	return err
}

func (s *socket) Read(p []byte) (int, error) {
	for s.left == 0 {
		head, err := s.in.Peek(2)
		if err != nil {
			return 0, err
		}
		if head[0] != 0x82 { // RFC 6455 §5.2: the last part of a binary message
			return 0, io.EOF
		}
		n := 2
		switch s.left = int(head[1]); s.left {
		case 126:
			n = 4
			if head, err = s.in.Peek(n); err != nil {
				return 0, err
			}
			s.left = int(binary.BigEndian.Uint16(head[2:]))
		case 127:
			n = 10
			if head, err = s.in.Peek(n); err != nil {
				return 0, err
			}
			s.left = int(binary.BigEndian.Uint64(head[2:]))
		}
		_, _ = s.in.Discard(n) // what was peeked
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func (s *socket) Write(p []byte) (int, error) {
	s.out = s.out[:0]
	for rest := p; len(rest) > 0; {
		n := len(rest)
		if s.byFrames && string(rest[:4]) != "AMQP" {
			n = int(binary.BigEndian.Uint32(rest))
		}
		s.out = append(s.out, 0x82)
		switch {
		case n < 126:
			s.out = append(s.out, 0x80|byte(n))
		case n < 1<<16:
			s.out = binary.BigEndian.AppendUint16(append(s.out, 0x80|126), uint16(n))
		default:
			s.out = binary.BigEndian.AppendUint64(append(s.out, 0x80|127), uint64(n))
		}
		s.out = append(append(s.out, 0, 0, 0, 0), rest[:n]...)
		rest = rest[n:]
	}
	if _, err := s.Conn.Write(s.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TestLargeBodiesPassAsTheyAre sends bodies of many sizes in writes of many sizes, between small messages, and receives them
// from a socket that was full for a while.
func TestLargeBodiesPassAsTheyAre(t *testing.T) {
	t.Parallel()
	broker := newFakeBroker("q1")
	broker.queues["q1"].maxSize = 100 << 20
	p := dialPeer(t, serve(t, broker, &fakeAuthority{}, Options{}))
	p.open()
	p.attach(0, wire.RoleSender, "q1")
	await[*wire.Flow](p)
	random := rand.New(rand.NewPCG(1, 2))
	var bodies [][]byte
	for _, size := range []int{0, 1, 100, 8_000, 8_192, 16_000, 16_384, 40_000, 65_000, 65_536, 70_000, 131_072, 1 << 20, 5_000_000, 300} {
		for range 2 {
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(random.Uint32())
			}
			bodies = append(bodies, body)
		}
	}
	var stream []byte
	for id, body := range bodies {
		transfer := &wire.Transfer{DeliveryID: value.Some(uint32(id)), DeliveryTag: []byte{1}, MessageFormat: value.Some(uint32(0))}
		for rest := wire.AppendDataSection(nil, body); len(rest) > 0; transfer = new(wire.Transfer) {
			var n int
			var err error
			if stream, n, err = wire.AppendTransfer(stream, 0, transfer, len(rest), 65536); err != nil {
				t.Fatal(err)
			}
			stream, rest = append(stream, rest[:n]...), rest[n:]
		}
	}
	for len(stream) > 0 {
		n := min(len(stream), 1+random.IntN(1<<random.IntN(19)))
		p.write(stream[:n])
		stream = stream[n:]
	}
	for settled := 0; settled < len(bodies); {
		d := await[*wire.Disposition](p)
		settled = int(d.Last.Or(d.First)) + 1
	}
	p.attach(1, wire.RoleReceiver, "q1")
	p.send(0, &wire.Flow{
		NextIncomingID: value.Some(uint32(0)), IncomingWindow: 5000, OutgoingWindow: 1,
		Handle: value.Some(uint32(1)), DeliveryCount: value.Some(uint32(0)), LinkCredit: value.Some(uint32(100)),
	})
	for i, want := range bodies {
		var got []byte
		for more := true; more; {
			perf, payload := p.receive()
			transfer, ok := perf.(*wire.Transfer)
			if !ok {
				t.Fatalf("got %T, want the message of %d bytes", perf, len(want))
			}
			got, more = append(got, payload...), transfer.More
		}
		s, err := wire.SplitMessage(got, value.Limits{})
		if err != nil || !bytes.Equal(s.Body, want) {
			t.Fatalf("message %d of %d bytes came back as %d bytes, %v", i, len(want), len(s.Body), err)
		}
	}
}
