package websocket

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// Path is the native protocol's address. Letter case does not matter, and %24 also matches $.
const Path = "/$crosstown/ws"

const (
	protocolJSON = "crosstown.v1.json"
	protocolPack = "crosstown.v1.msgpack"
)

// readAhead is the size of a connection's read buffer in bytes. Larger requests bypass the buffer.
const readAhead = 2 << 10

const stoppingText = "The gateway is stopping. Connect again."

// Bridge is an HTTP handler for the native protocol. It is safe for concurrent use.
type Bridge struct {
	front    bridges.Front
	opts     Options
	upgrader *upgrader
	shared   link.Shared
	*connGroup
}

// New returns a Bridge. It serves until the context of its method Run ends.
func New(front bridges.Front, auth core.Authority, o Options) *Bridge {
	o = o.withDefaults()
	places := fair.NewPlaces(o.MaxConnections, "WebSocket connections (websocket.max-connections)", o.Budget.Gauge())
	return &Bridge{
		front: front, opts: o,
		upgrader: newUpgrader(o.Origins, 0, protocolPack, protocolJSON), connGroup: newConnGroup(),
		shared: link.Shared{Pools: o.Pools, Authority: auth, Logger: o.Logger, Refusals: refusals.New(), Places: places},
	}
}

// ServeHTTP returns before the connection ends, so that net/http frees the memory of the request.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, in, err := b.upgrader.accept(w, r, Path, readAhead, b.enter, b.done)
	if err != nil {
		b.opts.Logger.Debug("websocket refused", "peer", r.RemoteAddr, "err", err)
		return
	}
	encoding := codec.JSON
	if ws.Subprotocol() == protocolPack {
		encoding = codec.MessagePack
	}
	c := newConn(b, ws, in, encoding, r)
	b.opts.Clients.Add(c)
	go b.serve(c)
}

func (b *Bridge) enter() (refusal string) {
	if refusal = b.connGroup.enter(); refusal != "" {
		return refusal
	}
	if b.shared.Places.Exhausted() {
		b.done()
		return fmt.Sprintf("This gateway has %d WebSocket connections, which is the limit: close some, or raise the setting websocket.max-connections.", b.opts.MaxConnections)
	}
	return ""
}

func (b *Bridge) serve(c *conn) {
	defer b.done()
	defer b.opts.Clients.Remove(c)
	defer c.dispose()
	err := c.run(b.ctx)
	c.Log.Debug("connection closed", "err", err)
}

type Options struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Origins are the origins of web pages that may connect, besides the gateway's own host. For their
	// patterns see origins.Check.
	Origins []string
	Clients *clients.Registry // of open connections; default: one of the bridge's own
	// Within converts an operator's grant for all namespaces into a grant for the given namespace. If
	// Within is nil, clients cannot choose a namespace.
	Within func(ctx context.Context, g core.Grant, namespace string) (core.Grant, error)

	// MaxConnections limits the clients that have signed in; default 20000. See bridges.Prove.
	MaxConnections int
	MaxFeeds       int // of one connection; default 256
	MaxFrame       int // bytes of a frame that a client sends; default 1.5 times the largest message size that an entity can have

	fair.Pools

	PingInterval time.Duration // time between two pings, and time for the client to answer a ping; default 30 s
	DrainGrace   time.Duration // time for unfinished calls when the bridge stops or the client disconnects; default 10 s
}

const (
	maxRequests   = 256
	maxCredit     = 5000
	maxGroup      = 4500
	defaultPeek   = 32
	maxTop        = 1000
	defaultTop    = 100
	maxJudgements = 1000
	maxTokens     = 3
	maxSenders    = 64
	maxWaiting    = 1 << 20
	maxUnderWay   = 64 << 20 // bytes of unanswered requests; at the limit the bridge stops reading the connection
	defaultWait   = time.Minute
	maxWait       = 24 * time.Hour
	expiryWarning = time.Minute
	closeGrace    = 2 * time.Second
	authTimeout   = 10 * time.Second // for the client to sign in
	writeTimeout  = 30 * time.Second // for the client to read at least a part of the output
	minFrame      = 1 << 20
	strangerFrame = 64 << 10
)

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	bridges.Default(&o.MaxConnections, 20_000)
	bridges.Default(&o.MaxFeeds, 256)
	bridges.Default(&o.MaxFrame, core.MaxMessageSizeKB<<10*3/2)
	bridges.Default(&o.PingInterval, 30*time.Second)
	bridges.Default(&o.DrainGrace, 10*time.Second)
	o.Clients = cmp.Or(o.Clients, &clients.Registry{Log: o.Logger})
	if o.Within == nil {
		o.Within = func(_ context.Context, g core.Grant, namespace string) (core.Grant, error) {
			return core.Grant{}, core.Refuse(core.Unauthorized, "Unauthorized access. The token is for the namespace '%s', not '%s'.", g.Namespace, namespace)
		}
	}
	o.Pools.Default()
	o.MaxFrame = max(o.MaxFrame, minFrame)
	return o
}

// connGroup counts connections, because HTTP servers do not wait for upgraded connections.
type connGroup struct {
	ctx  context.Context // of all connections; ends when they must drain
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	members sync.WaitGroup // grows only while closed is false
}

func newConnGroup() *connGroup {
	g := &connGroup{}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

func (g *connGroup) enter() (refusal string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return stoppingText
	}
	g.members.Add(1)
	return ""
}

func (g *connGroup) done() { g.members.Done() }

// When ctx ends, Run refuses new connections, drains the others, and returns nil when all are
// closed.
func (g *connGroup) Run(ctx context.Context) error {
	<-ctx.Done()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.members.Wait()
	return nil
}
