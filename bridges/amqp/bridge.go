package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Bridge struct {
	front     bridges.Front
	opts      Options
	container string
	shared    link.Shared
	crowded   bridges.Warnings
}

func New(front bridges.Front, a core.Authority, o Options) *Bridge {
	o = o.withDefaults()
	places := fair.NewPlaces(o.MaxConnections, "AMQP connections (amqp.max-connections)", o.Budget.Gauge())
	return &Bridge{
		front: front, opts: o, container: value.NewUUID().String(),
		shared: link.Shared{Pools: o.Pools, Authority: a, Logger: o.Logger, Refusals: refusals.New(), Places: places},
	}
}

// Serve accepts on ln until ctx ends, then drains and returns nil.
func (b *Bridge) Serve(ctx context.Context, ln net.Listener) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			conns.Go(func() { _ = b.ServeConn(ctx, nc) })
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("cannot accept connections: %w", err)
		default: // out of file descriptors, or the client is gone already
			b.opts.Logger.Warn("cannot accept a connection", "err", err)
			wake.After(ctx, acceptBackoff)
		}
	}
}

const acceptBackoff = 50 * time.Millisecond

// ServeConn serves nc until the client closes it, and drains nc when ctx ends. It returns nil after
// a normal end. The stack frames of ServeConn and run must be small: idle connections keep them.
func (b *Bridge) ServeConn(ctx context.Context, nc net.Conn) (err error) {
	c, err := b.admit(nc)
	if err != nil {
		return err
	}
	defer b.dismiss(c, &err)
	return c.run(ctx)
}

func (b *Bridge) admit(nc net.Conn) (*conn, error) {
	if b.shared.Places.Exhausted() {
		if b.crowded.Due() {
			b.opts.Logger.Warn("the limit amqp.max-connections is reached: the gateway closes new AMQP connections", "peer", nc.RemoteAddr().String(), "limit", b.opts.MaxConnections)
		}
		_ = nc.Close()
		return nil, core.Refuse(core.QuotaExceeded, "This gateway has %d AMQP connections, which is the limit: close some, or raise the setting amqp.max-connections.", b.opts.MaxConnections)
	}
	c := newConn(b, nc)
	b.opts.Clients.Add(c)
	c.Log.Debug("connection opened")
	return c, nil
}

func (b *Bridge) dismiss(c *conn, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic in a connection: %v", r)
		c.Log.Error("connection", "err", *err, "stack", string(debug.Stack()))
	} else {
		c.Log.Debug("connection closed", "err", *err)
	}
	defer b.opts.Clients.Remove(c)
	c.dispose()
}

// Options configure a Bridge. A zero field has its default.
type Options struct {
	Logger *slog.Logger // default: nothing is logged

	Version string

	MaxFrameSize uint32 // bytes, in both directions; default 65536
	// MaxConnections bounds the clients with a proven identity; default 5000. For the limit of
	// other clients, see bridges.Prove.
	MaxConnections int
	MaxSessions    int // AMQP sessions of one connection, at most 65536; default 8192
	MaxHandles     int // links of one AMQP session; default 256
	MaxLinks       int // links of one connection; default 8192

	// MaxUnsettled bounds the unsettled deliveries of one link; default 10000. More deliveries wait
	// until the client settles some, or until locks end.
	MaxUnsettled int
	// MaxConnectionUnsettled bounds the unsettled deliveries on all links of a connection; default
	// 50000. A message that would exceed the bound returns to its queue.
	MaxConnectionUnsettled int
	// StrictTransactions refuses transactions over several entities, unless the client puts all its
	// links into the coordinator's AMQP session.
	StrictTransactions bool
	MaxPurge           int // messages that one batch delete may remove; default 4000
	// ExclusiveSessions refuses receivers that request a non-exclusive session, which others could
	// take over. The Standard tier refuses them, too.
	ExclusiveSessions bool
	// MaxMessageBytes bounds a connection's memory for messages that are not stored yet, and for
	// properties of settlements in flight; default 64 MiB. At the limit the bridge stops reading.
	MaxMessageBytes int64
	fair.Pools
	Clients *clients.Registry // of open connections; default: one of the bridge's own

	IdleTimeout      time.Duration // announced to the client; a connection that is silent for twice this time is closed; default 120 s
	HandshakeTimeout time.Duration // from the start of the connection until the client's open; default 20 s
	WriteTimeout     time.Duration // for each write of at most 1 MiB, after which the connection is closed; default 30 s
	DrainGrace       time.Duration // for calls in flight when the bridge stops or the client disconnects; default 10 s
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	bridges.Default(&o.MaxFrameSize, 65536)
	bridges.Default(&o.MaxConnections, 5000)
	bridges.Default(&o.MaxSessions, 8192)
	bridges.Default(&o.MaxHandles, 256)
	bridges.Default(&o.MaxLinks, 8192)
	bridges.Default(&o.MaxUnsettled, 10_000)
	bridges.Default(&o.MaxConnectionUnsettled, 50_000)
	bridges.Default(&o.MaxPurge, 4000)
	bridges.Default(&o.MaxMessageBytes, 64<<20)
	bridges.Default(&o.IdleTimeout, 120*time.Second)
	bridges.Default(&o.HandshakeTimeout, 20*time.Second)
	bridges.Default(&o.WriteTimeout, 30*time.Second)
	bridges.Default(&o.DrainGrace, 10*time.Second)
	o.Pools.Default()
	o.Clients = cmp.Or(o.Clients, &clients.Registry{})
	o.MaxFrameSize = max(o.MaxFrameSize, wire.MinMaxFrameSize)
	o.MaxSessions = min(o.MaxSessions, 65536)
	return o
}

// The bounds of a connection without a proven identity. They are above one because clients begin
// sessions and attach links before the gateway has answered their first token.
const (
	strangerSessions = 100
	strangerLinks    = 100
	strangerBytes    = 2 * maxTokenSize // bytes of requests that have not arrived completely or are not answered yet
)

// authTimeout is the time from the open until the client has proven an identity.
const authTimeout = 20 * time.Second
