package websocket

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// Options configure a Bridge. Zero fields have their defaults.
type Options struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Origins are the pages that may connect besides those of the gateway's own
	// host: patterns as origins.Check takes them.
	Origins []string
	// Clients are the connections of all bridges, to which the bridge adds its own; default: those
	// of the bridge alone.
	Clients *clients.Registry
	// Within makes a grant of an operator one for another namespace. Nil: none may be named.
	Within func(ctx context.Context, g core.Grant, namespace string) (core.Grant, error)

	// MaxConnections is how many clients may be connected that have signed in; 20000.
	// How many others there may be is up to the listener: see bridges.Prove.
	MaxConnections int
	MaxFeeds       int // of one connection; 256
	MaxFrame       int // bytes of a client's frame; 1.5 times the largest message size that an entity can have

	// MaxUnderWay bounds the bytes of the requests of one connection that are not
	// answered yet: nothing is read while they have more; 64 MiB.
	MaxUnderWay int

	// Budget bounds the memory of all connections together; default: a budget of
	// the bridge's own.
	Budget *fair.Pool
	// Standing bounds the memory of connections and feeds; default: a pool of the bridge's own.
	Standing *fair.Pool
	// Streams bounds the feeds of all connections together; default: a bound of the
	// bridge's own.
	Streams *fair.Pool

	AuthTimeout  time.Duration // to sign in; 10 s
	PingInterval time.Duration // and how long a pong may take; 30 s
	WriteTimeout time.Duration // for the client to read something; 30 s
	DrainGrace   time.Duration // for what is under way when the bridge stops or the client goes; 10 s
}

// The limits of the protocol that cannot be configured.
const (
	maxRequests      = 256 // of one connection, under way
	maxCredit        = 5000
	maxGroup         = 4500 // messages, settlements or numbers of one request
	defaultPeek      = 32
	maxTop           = 1000
	defaultTop       = 100
	maxJudgements    = 1000
	maxTokens        = 3 // that are refused
	maxGrants        = 5000
	maxSenders       = 64 // that are kept open
	maxWaiting       = 1 << 20
	defaultWait      = time.Minute
	maxWait          = 24 * time.Hour
	expiryWarning    = time.Minute
	operationTimeout = time.Minute
	closeGrace       = 2 * time.Second // for the client to answer a close
	minFrame         = 1 << 20
	strangerFrame    = 64 << 10 // before signing in
)

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	bridges.Default(&o.MaxConnections, 20_000)
	bridges.Default(&o.MaxFeeds, 256)
	bridges.Default(&o.MaxFrame, core.MaxMessageSizeKB<<10*3/2)
	bridges.Default(&o.MaxUnderWay, 64<<20)
	bridges.Default(&o.AuthTimeout, 10*time.Second)
	bridges.Default(&o.PingInterval, 30*time.Second)
	bridges.Default(&o.WriteTimeout, 30*time.Second)
	bridges.Default(&o.DrainGrace, 10*time.Second)
	o.Clients = cmp.Or(o.Clients, &clients.Registry{Log: o.Logger})
	if o.Within == nil {
		o.Within = func(_ context.Context, g core.Grant, namespace string) (core.Grant, error) {
			return core.Grant{}, core.Refuse(core.Unauthorized, "Unauthorized access. The namespace is '%s', not '%s'.", g.Namespace, namespace)
		}
	}
	o.Budget = cmp.Or(o.Budget, fair.New(0, nil, nil))
	o.Standing = cmp.Or(o.Standing, fair.New(0, nil, nil))
	o.Streams = cmp.Or(o.Streams, fair.NewStreams(0, nil))
	o.MaxFrame = max(o.MaxFrame, minFrame)
	return o
}
