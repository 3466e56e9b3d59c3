package websocket

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// stream is a WebSocket's binary messages as a stream of bytes. Where a message
// begins or ends has no meaning, and messages have no largest size: whoever reads
// says how much at a time. Like every net.Conn it may be read, written and closed
// by different goroutines.
type stream struct {
	ws      *websocket.Conn
	message io.Reader // the one being read, nil between two
	close   sync.Once
	closed  error // what close has led to
}

const (
	pongTimeout  = 10 * time.Second // nothing is read meanwhile
	closeTimeout = time.Second      // for the last word
)

var _ net.Conn = (*stream)(nil)

func newStream(ws *websocket.Conn) *stream {
	ws.SetPingHandler(func(data string) error {
		err := ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(pongTimeout))
		if errors.Is(err, websocket.ErrCloseSent) {
			return nil
		}
		return err
	})
	return &stream{ws: ws}
}

// Protocol names what is spoken, for those who ask a net.Conn.
func (s *stream) Protocol() string { return "amqp over websocket" }

// Read reads what has come of a message. A text message ends the connection: it
// is no part of a stream of bytes.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.message == nil {
			kind, message, err := s.ws.NextReader()
			if err != nil {
				return 0, endOf(err)
			}
			if kind != websocket.BinaryMessage {
				s.closeWith(websocket.CloseUnsupportedData, "AMQP needs binary messages")
				return 0, errors.New("websocket: text message")
			}
			s.message = message
		}
		n, err := s.message.Read(p)
		if err == io.EOF {
			s.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, endOf(err)
		}
	}
}

// endOf makes an orderly goodbye the end of the stream.
func endOf(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
		return io.EOF
	}
	return err
}

// Write sends p in one message. After an error, a time-out included, nothing can
// be written any more.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close says goodbye, if the client takes it, and closes the connection.
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

// SetWriteDeadline holds for the Writes that follow.
func (s *stream) SetWriteDeadline(at time.Time) error { return s.ws.SetWriteDeadline(at) }

func (s *stream) SetDeadline(at time.Time) error {
	return errors.Join(s.SetReadDeadline(at), s.SetWriteDeadline(at))
}
