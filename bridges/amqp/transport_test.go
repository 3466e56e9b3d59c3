package amqp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/websocket"
	"github.com/crosstown-mq/crosstown/core"
)

// transports are ways for a benchmark's peer to reach a bridge.
var transports = []struct {
	name    string
	connect func(*testing.B, *Bridge) net.Conn
}{
	{"pipe", overPipe},
	{"tcp", overTCP},
	{"websocket", func(b *testing.B, bridge *Bridge) net.Conn { return overWebSocket(b, bridge, false) }},
	{"websocket by frames", func(b *testing.B, bridge *Bridge) net.Conn { return overWebSocket(b, bridge, true) }},
}

// overEach runs a benchmark over each transport, with a bridge in front of broker.
func overEach(b *testing.B, broker func() core.Broker, run func(*testing.B, *peer)) {
	b.Helper()
	for _, t := range transports {
		b.Run(t.name, func(b *testing.B) {
			p := newPeer(b, t.connect(b, New(broker(), nil, &fakeAuthority{}, Options{})))
			p.open()
			b.ReportAllocs()
			run(b, p)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/msg")
		})
	}
}

func overPipe(b *testing.B, bridge *Bridge) net.Conn {
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

func overTCP(b *testing.B, bridge *Bridge) net.Conn {
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
func overWebSocket(b *testing.B, bridge *Bridge, byFrames bool) net.Conn {
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
