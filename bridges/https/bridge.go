package https

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/origins"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// Options configure a Bridge. The zero value works.
type Options struct {
	Logger *slog.Logger
	// PublicURL is the scheme and host of links in responses, such as https://bus.example.com. If it
	// is empty, links have the scheme and host of the request.
	PublicURL string
	// Origins lists the origins whose web pages may use the REST runtime and the event streams,
	// besides the gateway's own host. For its patterns see origins.Check.
	Origins []string
	fair.Pools
	Clients *clients.Registry // of open event streams; default: one of the bridge's own
	// Grace is how long requests in flight may continue after the end of Serve's ctx; 0 means 10 s.
	Grace time.Duration
	// Routes are handlers by path, tried before the bridge's own. The path begins with a slash. Letter
	// case does not matter. If a path ends in a slash, its handler also gets all paths below it.
	Routes map[string]http.Handler
	// Context, if not nil, returns a request's context, into which it may put values from headers.
	Context func(*http.Request) context.Context
	// Details, if not nil, returns further details for /health by name. They do not change the
	// status.
	Details func() map[string]any
	// Degraded, if not nil, returns why the gateway is degraded, or "" if it is not. /health reports
	// the reason, still with status 200.
	Degraded func() string
	// Host, if not nil, decides whether the gateway accepts the host of a request, also for Routes
	// and Home. The text of its core.Refusal is sent with status 421.
	Host func(host string) error
	// Plain, if not nil, reports whether a client at the address remote, host:port, may connect
	// without TLS. The bridge answers other clients without TLS only on /health.
	Plain func(remote string) bool
	// Answered, if not nil, is called with the route and status of each request when the response
	// begins. The routes are send, receive, stream, settle, preflight (of a web page from another
	// origin), health, page, misdirected (421), the keys of Routes without a final slash, and
	// management for all other paths. The status is 499 if the client disconnected before the
	// response began.
	Answered func(route string, status int)
	// Home answers GET and HEAD requests of browsers for "/": those with text/html in Accept and
	// without api-version. If Home is nil, the management API answers.
	Home http.Handler
}

const (
	maxPoll      = time.Minute
	defaultGrace = 10 * time.Second

	readHeaderTimeout = 10 * time.Second
	bodyTimeout       = time.Minute // for the client to begin a body, or to read a part of a response
	idleTimeout       = 2 * time.Minute
	cleanupTimeout    = 5 * time.Second
	healthTimeout     = 5 * time.Second
)

// Bridge serves the Service Bus REST runtime and the ATOM admin API. It is safe for concurrent use.
type Bridge struct {
	front  bridges.Front
	auth   core.Authority
	log    *slog.Logger
	opts   Options
	exact  map[string]http.Handler
	prefix map[string]http.Handler // by lower-cased path, which ends in a slash

	origins origins.List

	refusals *refusals.Log
}

func New(front bridges.Front, auth core.Authority, o Options) *Bridge {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	bridges.Default(&o.Grace, defaultGrace)
	o.Pools.Default()
	o.Clients = cmp.Or(o.Clients, &clients.Registry{})
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	bridge := &Bridge{
		front: front, auth: auth, log: o.Logger, opts: o,
		exact: map[string]http.Handler{}, prefix: map[string]http.Handler{}, origins: origins.New(o.Origins), refusals: refusals.New(),
	}
	for path, h := range o.Routes {
		path = strings.ToLower(path)
		if strings.HasSuffix(path, "/") {
			bridge.prefix[path] = h
		} else {
			bridge.exact[path] = h
		}
	}
	return bridge
}

// Handler serves all routes of the bridge in a server of the caller. Unless Serve also runs, only
// the end of its request ends a long poll.
func (b *Bridge) Handler() http.Handler { return http.HandlerFunc(b.serve) }

// Serve accepts connections on ln, which provides TLS if needed, until ctx ends. Then it answers
// waiting receives without a message, gives requests in flight the grace period, and returns nil.
func (b *Bridge) Serve(ctx context.Context, ln net.Listener) error {
	requests, cancel := context.WithCancel(bridges.WithEnding(context.WithoutCancel(ctx), ctx.Done()))
	defer cancel()
	srv := &http.Server{
		Handler:           b.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    2 * core.MaxHeaderBytes, // the headers of a message, at most 64 KiB, encoded, and HTTP's own
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			ctx = bridges.WithConn(ctx, nc, func(id core.Identity) (func(), error) {
				return b.opts.Standing.Open(fair.Of(id), fair.Connection(nc)+fair.Requests)
			})
			ctx = core.WithDisconnect(ctx, func(int) { _ = nc.Close() })
			return core.WithPeer(ctx, bridges.Peer("https", nc.RemoteAddr().String(), ""))
		},
		ConnState: func(nc net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				bridges.Answered(nc)
			}
		},
		ErrorLog: slog.NewLogLogger(b.log.Handler(), slog.LevelWarn),
	}
	var err error // may be read once served is closed
	served := make(chan struct{})
	go func() {
		defer close(served)
		err = srv.Serve(ln)
	}()
	select {
	case <-served:
		if ctx.Err() != nil {
			return nil // expected: the end of ctx has closed the listener
		}
		return fmt.Errorf("cannot serve HTTP on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), b.opts.Grace)
	defer stop()
	if err := srv.Shutdown(grace); err != nil {
		b.log.Warn("the grace period ended before all HTTP requests: their connections are closed", "grace", b.opts.Grace, "err", err)
		cancel()
		_ = srv.Close() // the listener is closed already
	}
	<-served
	return nil
}
