package websocket

import (
	"context"
	"fmt"
	"net/http"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// Path is where clients of the native protocol connect. Paths are matched
// without regard to case, and unescaped, so %24 will do for the dollar.
const Path = "/$crosstown/ws"

// The sub-protocols.
const (
	protocolJSON = "crosstown.v1.json"
	protocolPack = "crosstown.v1.msgpack"
)

// readAhead is the size of a connection's read buffer, in which it has most
// requests as a whole. Larger ones are read past it.
const readAhead = 2 << 10

// stoppingText is what clients hear when the gateway stops.
const stoppingText = "The gateway is stopping. Connect again."

// Bridge is an HTTP handler for clients of the native protocol. It is safe for
// concurrent use.
type Bridge struct {
	front    bridges.Front
	auth     core.Authority
	opts     Options
	upgrader *upgrader
	group    *connGroup
	refusals *refusals.Log

	places *fair.Pool // of connections of clients that have signed in

	*link.Conns[*conn]
}

// New returns a bridge that calls front, and authenticates clients with auth. Run must be called for it to stop.
func New(front bridges.Front, auth core.Authority, o Options) *Bridge {
	o = o.withDefaults()
	bridge := &Bridge{
		front: front, auth: auth, opts: o, Conns: link.NewConns[*conn](),
		upgrader: newUpgrader(o.Origins, 0, protocolPack, protocolJSON), group: newConnGroup(), refusals: refusals.New(),
		places: fair.NewPlaces(o.MaxConnections, "WebSocket connections (websocket.max-connections)", o.Budget.Gauge()),
	}
	bridge.opts.Clients.Add(bridge)
	return bridge
}

// Run waits for ctx to end. Then it turns new connections away, says goodbye to
// those that there are, lets what they have under way finish, and returns nil
// when they have ended.
func (b *Bridge) Run(ctx context.Context) error {
	b.group.drainAfter(ctx)
	return nil
}

// ServeHTTP makes the request's connection one of the native protocol. It
// returns while that is served, so that what belongs to the request can be freed.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, in, err := b.upgrader.accept(w, r, Path, readAhead, b.enter, b.group.done)
	if err != nil {
		b.opts.Logger.Debug("websocket refused", "peer", r.RemoteAddr, "err", err)
		return
	}
	encoding := codec.JSON
	if ws.Subprotocol() == protocolPack {
		encoding = codec.MessagePack
	}
	c := newConn(b, ws, in, encoding, r)
	b.Add(c)
	go b.serve(c)
}

// enter lets a connection in, or says why it may not come in.
func (b *Bridge) enter() (refusal string) {
	if refusal = b.group.enter(); refusal != "" {
		return refusal
	}
	if b.places.Exhausted() {
		b.group.done()
		return fmt.Sprintf("%d connections are open, which is the limit: see the setting websocket.max-connections.", b.opts.MaxConnections)
	}
	return ""
}

func (b *Bridge) serve(c *conn) {
	defer b.group.done()
	defer b.Remove(c)
	defer c.dispose()
	err := c.run(b.group.ctx)
	c.log.Debug("connection closed", "err", err)
}
