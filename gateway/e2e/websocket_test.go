package e2e

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/gateway/internal/wsstream"
)

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
	return wsstream.New(c), nil
}
