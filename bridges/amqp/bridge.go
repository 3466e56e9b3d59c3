package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

// Bridge serves AMQP connections.
type Bridge struct {
	broker    core.Broker
	admin     core.Admin
	authority core.Authority
	opts      Options
	container string
	refusals  *refusals.Log
	proven    atomic.Int64     // connections of clients with a proven identity
	crowded   bridges.Warnings // of too many connections
	census    chan struct{}    // holds an element while there is one

	mu    sync.Mutex
	conns map[*conn]struct{} // that are served
}

// New returns a bridge in front of b, with admin for the rules of subscriptions, and a to
// authenticate clients.
func New(b core.Broker, admin core.Admin, a core.Authority, o Options) *Bridge {
	return &Bridge{
		broker: b, admin: admin, authority: a, opts: o.withDefaults(), container: newUUID().String(), refusals: refusals.New(),
		census: make(chan struct{}, 1), conns: make(map[*conn]struct{}),
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
			return fmt.Errorf("accept: %w", err)
		default: // out of file descriptors, or the peer gave up
			b.opts.Logger.Warn("accept", "err", err)
			pause(ctx, acceptBackoff)
		}
	}
}

const acceptBackoff = 50 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ServeConn serves one connection until the client closes it or, some time after ctx has ended, it has drained. It
// returns why the connection ended, nil for an orderly end. It closes nc.
func (b *Bridge) ServeConn(ctx context.Context, nc net.Conn) (err error) {
	defer func() { _ = nc.Close() }()
	id := refusals.NewID()
	log := b.opts.Logger.With("conn", id, "peer", nc.RemoteAddr().String())
	if b.proven.Load() >= int64(b.opts.MaxConnections) {
		if b.crowded.Due() {
			log.Warn("too many connections: closing further ones", "limit", b.opts.MaxConnections)
		}
		return b.tooMany()
	}
	c := newConn(b, nc, id, log)
	b.enter(c)
	defer b.leave(c)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			log.Error("connection", "err", err, "stack", string(debug.Stack()))
		}
		c.dispose()
	}()
	log.Debug("connection opened")
	err = c.run(ctx)
	log.Debug("connection closed", "err", err)
	return err
}

func (b *Bridge) tooMany() error {
	return core.Refuse(core.QuotaExceeded, "%d connections are open, which is the limit.", b.opts.MaxConnections)
}

// count counts the connection of a client with a proven identity, unless there are too many.
func (b *Bridge) count() error {
	if b.proven.Add(1) > int64(b.opts.MaxConnections) {
		b.proven.Add(-1)
		return b.tooMany()
	}
	return nil
}
