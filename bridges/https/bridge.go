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
	"github.com/crosstown-mq/crosstown/bridges/origins"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// Options configure a Bridge. The zero value works.
type Options struct {
	// Logger receives what operators should know; nil means slog.Default().
	Logger *slog.Logger
	// PublicURL is the scheme and host by which clients reach the gateway, such as
	// https://bus.example.com. The links in responses begin with it. If PublicURL is empty, they
	// begin with the scheme and host of the request.
	PublicURL string
	// Origins lists the origins whose web pages may use the REST runtime and the event streams, in
	// addition to the host itself. The patterns are those of origins.Check.
	Origins []string
	// MaxBodyBytes bounds a request's body; 0 means the largest message size that an entity can
	// have. The entity's own limit applies as well.
	MaxBodyBytes int64
	// Budget bounds the memory of messages in progress; nil means a budget of the
	// bridge's own.
	Budget *fair.Pool
	// Standing bounds the memory of connections; nil means a pool of the bridge's own.
	Standing *fair.Pool
	// MaxPollSeconds limits the timeout that a receive may request; 0 means 60.
	MaxPollSeconds int
	// Grace is how long requests in flight may continue when Serve ends; 0 means 10 s.
	Grace time.Duration
	// Streams bounds the number of open event streams; nil means a bound of the bridge's own.
	Streams *fair.Pool
	// Routes are handlers for further paths, which the bridge tries before its own. A key is a path
	// that begins with a slash, and is compared case-insensitively. A key that ends with a slash is
	// a prefix; any other must match exactly.
	Routes map[string]http.Handler
	// Context, if not nil, returns the context for a request: the request's own context, with
	// values from its headers.
	Context func(*http.Request) context.Context
	// Details, if not nil, returns further details for /health by name, or nil. They do not change
	// whether the gateway counts as healthy.
	Details func() map[string]any
	// Degraded, if not nil, returns why /health reports degraded, still with status 200, or "" for
	// healthy.
	Degraded func() string
	// Host, if not nil, decides for each request whether the gateway accepts the request's host.
	// This includes requests for Routes and Home. If Host returns a core.Refusal, the response has
	// its text and the status 421.
	Host func(host string) error
	// Plain, if not nil, reports whether a client at an address, host:port, may connect without
	// TLS. If not, the bridge refuses all its requests except those for /health.
	Plain func(remote string) bool
	// Answered, if not nil, is called with the route and status of each request when the response
	// begins. The routes are send, receive, stream, settle, management, health, page, misdirected
	// (421), and the keys of Routes without a slash at the end. The status 499 means that the
	// client disconnected before the response.
	Answered func(route string, status int)
	// Home answers a browser's request for a page at "/": GET or HEAD with text/html in Accept, and
	// without api-version. If Home is nil, the management API answers, which lists entities there.
	Home http.Handler
}

const (
	defaultPollSeconds = 60
	defaultGrace       = 10 * time.Second

	readHeaderTimeout = 10 * time.Second
	bodyTimeout       = time.Minute // for the client to begin a body, and to read a part of an answer
	idleTimeout       = 2 * time.Minute
	cleanupTimeout    = 5 * time.Second // to release the lock of a client that has gone
	healthTimeout     = 5 * time.Second
)

// Bridge speaks the Service Bus REST runtime and the ATOM admin API for a
// broker. It is safe for concurrent use.
type Bridge struct {
	front  bridges.Front
	auth   core.Authority
	log    *slog.Logger
	opts   Options
	exact  map[string]http.Handler // by lower-cased path
	prefix map[string]http.Handler // by lower-cased path, slash included

	origins origins.List

	refusals *refusals.Log

	open openStreams // of server-sent events
}

// New makes a bridge. It starts no goroutine.
func New(front bridges.Front, auth core.Authority, o Options) *Bridge {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	bridges.Default(&o.MaxBodyBytes, core.MaxMessageSizeKB<<10)
	bridges.Default(&o.MaxPollSeconds, defaultPollSeconds)
	bridges.Default(&o.Grace, defaultGrace)
	o.Budget = cmp.Or(o.Budget, fair.New(0, nil, nil))
	o.Standing = cmp.Or(o.Standing, fair.New(0, nil, nil))
	o.Streams = cmp.Or(o.Streams, fair.NewStreams(0, nil))
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

// Handler serves every route of the bridge. It does not need Serve, so a gateway can use it in a
// mux or server of its own. Long polls then end only with their requests.
func (b *Bridge) Handler() http.Handler { return http.HandlerFunc(b.serve) }

// Serve accepts connections on ln until ctx ends. Then it stops accepting, answers waiting receives
// that there is no message, gives requests in flight the grace period, and returns nil. If there is
// TLS, ln terminates it.
func (b *Bridge) Serve(ctx context.Context, ln net.Listener) error {
	requests, cancel := context.WithCancel(bridges.WithEnding(context.WithoutCancel(ctx), ctx.Done()))
	defer cancel()
	srv := &http.Server{
		Handler:           b.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    2 * core.MaxHeaderBytes, // 64 KiB of a message, encoded, and HTTP's own headers
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
	var err error // to be read once served is closed
	served := make(chan struct{})
	go func() {
		defer close(served)
		err = srv.Serve(ln)
	}()
	select {
	case <-served:
		if ctx.Err() != nil {
			return nil // the end of ctx has closed the listener, too
		}
		return fmt.Errorf("serve http on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), b.opts.Grace)
	defer stop()
	if err := srv.Shutdown(grace); err != nil {
		b.log.Warn("stopped before all HTTP requests had ended: the grace period is over", "grace", b.opts.Grace, "err", err)
		cancel()
		_ = srv.Close() // the listener is closed already; this closes the connections
	}
	<-served
	return nil
}
