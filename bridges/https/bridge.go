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
	// PublicURL is the scheme and authority that clients reach the gateway by, such as
	// https://bus.example.com, for the links in answers. If empty, links use those of the request.
	PublicURL string
	// Origins lists the origins whose pages may use the REST runtime and the event streams, besides
	// those of the host itself: patterns as origins.Check takes them.
	Origins []string
	// MaxBodyBytes bounds a request's body; 0 means the largest message size that an entity can
	// have. The entity's own limit applies as well.
	MaxBodyBytes int64
	// Budget bounds the memory of messages in progress; nil means a budget of the
	// bridge's own.
	Budget *fair.Pool
	// Standing bounds the memory of connections; nil means a pool of the bridge's own.
	Standing *fair.Pool
	// MaxPollSeconds caps the timeout that a receive may ask for; 0 means 60.
	MaxPollSeconds int
	// Grace is how long requests in flight may continue when Serve ends; 0 means 10 s.
	Grace time.Duration
	// Streams bounds the streams of server-sent events that are open; nil means a bound of
	// the bridge's own.
	Streams *fair.Pool
	// Routes are handlers for further paths, tried before the bridge's own. A
	// key is a path that begins with a slash, matched without regard to case:
	// exactly, or as a prefix if it ends in a slash.
	Routes map[string]http.Handler
	// Context, if not nil, returns the context in which a request is carried out: its own context,
	// with values read from its headers.
	Context func(*http.Request) context.Context
	// Details, if not nil, returns what else /health shows, by name; nil for nothing. It does not
	// change whether the gateway counts as healthy.
	Details func() map[string]any
	// Degraded, if not nil, returns why /health says degraded, still with status 200, or "" for healthy.
	Degraded func() string
	// Host, if not nil, decides for each request, also those for Routes and Home, whether the
	// gateway accepts the request's host. If it returns a core.Refusal, the answer has the
	// refusal's text and status 421.
	Host func(host string) error
	// Plain, if not nil, reports whether a client at an address, host:port, may connect without
	// TLS. If not, all its requests except those for /health are refused.
	Plain func(remote string) bool
	// Answered, if not nil, is called with the route and status of each request when
	// the answer begins. Routes are few: send, receive, stream, settle, management,
	// health, page, misdirected (421), and the keys of Routes without a slash at their
	// end. 499: the client went away before there was an answer.
	Answered func(route string, status int)
	// Home answers requests for "/" that a browser makes to show a page: GET or
	// HEAD, with text/html among what is accepted and without api-version. nil
	// leaves them to the management API, which lists entities there.
	Home http.Handler
}

const (
	defaultPollSeconds = 60
	defaultGrace       = 10 * time.Second

	readHeaderTimeout = 10 * time.Second
	bodyTimeout       = time.Minute // to begin a request's body, and to take a part of an answer
	idleTimeout       = 2 * time.Minute
	cleanupTimeout    = 5 * time.Second // to release what a vanished client had
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

// New makes a bridge. It starts nothing.
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

// Handler serves every route of the bridge. It does not need Serve, so a gateway may put it behind
// a mux or a server of its own; long polls then end with their requests only.
func (b *Bridge) Handler() http.Handler { return http.HandlerFunc(b.serve) }

// Serve accepts on ln until ctx ends. Then it stops accepting, lets waiting
// receives answer that there is no message, gives requests in flight the grace
// period, and returns nil. TLS, if any, ends in ln.
func (b *Bridge) Serve(ctx context.Context, ln net.Listener) error {
	requests, cancel := context.WithCancel(bridges.WithEnding(context.WithoutCancel(ctx), ctx.Done()))
	defer cancel()
	srv := &http.Server{
		Handler:           b.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    2 * core.MaxHeaderBytes, // the message's 64 KiB, encoded, and HTTP's own
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
		_ = srv.Close() // the listener is closed already; this drops the connections
	}
	<-served
	return nil
}
