// Package wsstream is the client's end of AMQP over WebSocket, for tests.
package wsstream

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/gorilla/websocket"
)

// New returns c as the stream of bytes that AMQP clients expect.
func New(c *websocket.Conn) net.Conn { return &stream{Conn: c} }

type stream struct {
	*websocket.Conn
	message io.Reader // nil between messages
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.message == nil {
			_, message, err := s.NextReader()
			if err != nil {
				return 0, err
			}
			s.message = message
		}
		n, err := s.message.Read(p)
		if errors.Is(err, io.EOF) {
			s.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (s *stream) Write(p []byte) (int, error) {
	if err := s.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
