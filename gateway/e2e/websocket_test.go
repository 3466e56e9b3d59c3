package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/gorilla/websocket"
)

// socket is a WebSocket as the stream of bytes that AMQP clients want.
type socket struct {
	*websocket.Conn
	message io.Reader // nil between two
}

// dialSocket connects to url by AMQP's sub-protocol.
func dialSocket(ctx context.Context, url string, t *tls.Config) (net.Conn, error) {
	d := websocket.Dialer{Subprotocols: []string{"amqp"}, TLSClientConfig: t, HandshakeTimeout: patience}
	c, answer, err := d.DialContext(ctx, url, nil)
	if answer != nil {
		_ = answer.Body.Close() // it is empty, or says what err does
	}
	if err != nil {
		return nil, err
	}
	return &socket{Conn: c}, nil
}

func (s *socket) Read(p []byte) (int, error) {
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

func (s *socket) Write(p []byte) (int, error) {
	if err := s.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
