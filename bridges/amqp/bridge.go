package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// Bridge serves AMQP connections.
type Bridge struct {
	front     bridges.Front
	authority core.Authority
	opts      Options
	container string
	refusals  *refusals.Log
	places    *fair.Pool       // of connections of clients with a proven identity
	crowded   bridges.Warnings // of too many connections

	*link.Conns[*conn] // that are served
}

// New returns a bridge that calls front, and authenticates clients with a.
func New(front bridges.Front, a core.Authority, o Options) *Bridge {
	o = o.withDefaults()
	return &Bridge{
		places: fair.NewPlaces(o.MaxConnections, "AMQP connections (amqp.max-connections)", o.Budget.Gauge()),
		front:  front, authority: a, opts: o, container: newUUID().String(), refusals: refusals.New(),
		Conns: link.NewConns[*conn](),
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
// returns why the connection ended, nil for an orderly end. It closes nc. Its frame and that of run are small: the stack of
// a connection that waits then is.
func (b *Bridge) ServeConn(ctx context.Context, nc net.Conn) (err error) {
	c, err := b.admit(nc)
	if err != nil {
		return err
	}
	defer b.dismiss(c, &err)
	return c.run(ctx)
}

// admit begins a connection, unless there are too many.
func (b *Bridge) admit(nc net.Conn) (*conn, error) {
	id := refusals.NewID()
	log := b.opts.Logger.With("conn", id, "peer", nc.RemoteAddr().String())
	if b.places.Exhausted() {
		if b.crowded.Due() {
			log.Warn("too many connections: closing further ones", "limit", b.opts.MaxConnections)
		}
		_ = nc.Close()
		return nil, core.Refuse(core.QuotaExceeded, "%d connections are open, which is the limit.", b.opts.MaxConnections)
	}
	c := newConn(b, nc, id, log)
	b.Add(c)
	log.Debug("connection opened")
	return c, nil
}

// dismiss ends a connection, which may have panicked.
func (b *Bridge) dismiss(c *conn, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
		c.log.Error("connection", "err", *err, "stack", string(debug.Stack()))
	} else {
		c.log.Debug("connection closed", "err", *err)
	}
	defer b.Remove(c)
	c.dispose()
}
