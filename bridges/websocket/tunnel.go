package websocket

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/bridges"
)

// TunnelPath is the path at which AMQP clients open WebSockets (Service Bus wire contract §1.6).
// Some clients escape the dollar sign as %24 or append a slash; such paths match, too.
const TunnelPath = "/$servicebus/websocket"

// tunnelBuffer is the size of the read buffer and of the write buffers in bytes. Each write takes
// its buffer from a pool. A larger message takes two writes.
const tunnelBuffer = 16 << 10

// TunnelOptions configure a Tunnel. The zero value works.
type TunnelOptions struct {
	// Origins are the origins of web pages that may connect, besides the gateway's own host. For their
	// patterns see origins.Check.
	Origins []string
	// Logger may be nil.
	Logger *slog.Logger
}

// Tunnel is an HTTP handler for clients that speak AMQP inside a WebSocket. It passes the bytes on
// as a stream, without interpreting them. AMQP's own limits, heartbeats and time-outs apply.
type Tunnel struct {
	upgrader *upgrader
	serve    func(context.Context, net.Conn) error
	log      *slog.Logger
	*connGroup
}

// NewTunnel returns a tunnel that passes each connection to serve. serve must close the connection,
// and must return soon after its context ends.
func NewTunnel(serve func(context.Context, net.Conn) error, o TunnelOptions) *Tunnel {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Tunnel{upgrader: newUpgrader(o.Origins, tunnelBuffer, "AMQPWSB10", "amqp"), serve: serve, log: o.Logger, connGroup: newConnGroup()}
}

// ServeHTTP returns before the connection ends, so that net/http frees the memory of the request.
func (t *Tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, in, err := t.upgrader.accept(w, r, TunnelPath, tunnelBuffer, t.enter, t.done)
	if err != nil {
		t.log.Debug("websocket refused", "peer", r.RemoteAddr, "err", err)
		return
	}
	go func() {
		defer t.done()
		_ = t.serve(t.ctx, newStream(ws, in, r)) // serve logs its errors
	}()
}

// stream presents a WebSocket's binary messages as a stream of bytes. Message boundaries have no
// meaning, and messages have no largest size. Like every net.Conn it may be read, written and
// closed by different goroutines.
// Most clients put each AMQP frame into a message of its own. Reading these one by one would cost
// much more than the same bytes over TCP, so Read takes all messages that have arrived. To find
// them, it looks at the bytes that ws will read next.
type stream struct {
	ws      *websocket.Conn
	hosts   []string // host names with which the client addressed the gateway; see bridges.Hosts
	tls     *tls.ConnectionState
	in      *bufio.Reader
	message io.Reader
	left    int64 // unread bytes of message; 0 if not known
	close   sync.Once
	closed  error
}

const (
	pongTimeout  = 10 * time.Second
	closeTimeout = time.Second
)

var _ net.Conn = (*stream)(nil)

func newStream(ws *websocket.Conn, in *bufio.Reader, r *http.Request) *stream {
	ws.SetPingHandler(func(data string) error {
		err := ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(pongTimeout))
		if errors.Is(err, websocket.ErrCloseSent) {
			return nil
		}
		return err
	})
	return &stream{ws: ws, in: in, hosts: bridges.Hosts(r), tls: r.TLS}
}

func (s *stream) Protocol() string { return "amqp over websocket" }

func (s *stream) Hosts() []string { return s.hosts }

// ConnectionState returns the zero state if the connection has no TLS.
func (s *stream) ConnectionState() (state tls.ConnectionState) {
	if s.tls != nil {
		state = *s.tls
	}
	return state
}

func (s *stream) NetConn() net.Conn { return s.ws.NetConn() }

func (s *stream) Proven() { bridges.Prove(s.NetConn()) }

// Read reads what has arrived: several messages, or a part of one. A text message is an error,
// because it cannot be part of a stream of bytes.
func (s *stream) Read(p []byte) (n int, err error) {
	for n == 0 && len(p) > 0 {
		if n, err = s.read(p); err != nil {
			return n, endOf(err)
		}
	}
	for n < len(p) && s.ready() {
		k, err := s.read(p[n:])
		n += k
		if err != nil {
			break // the error is permanent, so the next Read returns it
		}
	}
	return n, nil
}

func (s *stream) read(p []byte) (int, error) {
	if s.message == nil {
		left := s.ahead() // waits for a frame; NextReader returns the error
		kind, message, err := s.ws.NextReader()
		if err != nil {
			return 0, err
		}
		if kind != websocket.BinaryMessage {
			s.closeWith(websocket.CloseUnsupportedData, "AMQP needs binary messages")
			return 0, errors.New("the client sent a text message: AMQP requires binary messages")
		}
		s.message, s.left = message, left
	}
	n, err := s.message.Read(p)
	if s.left > 0 {
		if s.left -= int64(n); s.left == 0 {
			s.message = nil
		}
	}
	if err == io.EOF {
		s.message, err = nil, nil
	}
	return n, err
}

func (s *stream) ready() bool {
	if s.message != nil {
		return s.left > 0 && s.in.Buffered() > 0
	}
	const header = 14 // the longest header in bytes, RFC 6455 §5.2
	return s.in.Buffered() > header && s.ahead() > 0
}

// ahead waits for the next message, and returns its length if it has one frame, otherwise 0.
func (s *stream) ahead() int64 {
	if first, size, _ := nextFrame(s.in); first == opBinary {
		return size
	}
	return 0
}

func endOf(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
		return io.EOF
	}
	return err
}

// Write sends p in one message. After an error, such as a time-out, it sends nothing more.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *stream) Close() error {
	s.closeWith(websocket.CloseNormalClosure, "")
	return s.closed
}

func (s *stream) closeWith(code int, text string) {
	s.close.Do(func() {
		_ = s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(closeTimeout))
		s.closed = s.ws.Close()
	})
}

func (s *stream) LocalAddr() net.Addr  { return s.ws.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr { return s.ws.RemoteAddr() }

func (s *stream) SetReadDeadline(at time.Time) error { return s.ws.SetReadDeadline(at) }

func (s *stream) SetWriteDeadline(at time.Time) error { return s.ws.SetWriteDeadline(at) }

func (s *stream) SetDeadline(at time.Time) error {
	return errors.Join(s.SetReadDeadline(at), s.SetWriteDeadline(at))
}
