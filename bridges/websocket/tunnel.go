package websocket

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
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
