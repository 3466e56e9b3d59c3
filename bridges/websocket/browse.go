package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// peek shows messages without receiving them.
func (c *conn) peek(q *request) {
	show := func(ds []core.Delivery, err error) (func(codec.Writer), error) {
		return func(w codec.Writer) { writeShown(w, ds, q.binary) }, err
	}
	if q.given.has(hasEntity) {
		c.call(q, func(ctx context.Context, id core.Identity) (func(codec.Writer), error) {
			if q.given.has(hasInState) {
				return show(c.bridge.front.PeekState(ctx, id, core.At(q.entity), q.inState, q.from, q.max))
			}
			return show(c.bridge.front.Peek(ctx, id, core.At(q.entity), q.from, q.max))
		})
		return
	}
	c.onSession(q, func(ctx context.Context, s core.Session) (func(codec.Writer), error) {
		return show(s.Peek(ctx, q.from, q.max))
	})
}

// writeShown writes what was peeked, as much as a client is to be given at once.
func writeShown(w codec.Writer, ds []core.Delivery, binary bool) {
	w.Key("messages").OpenList()
	n := 0
	for start := w.Len(); n < len(ds) && w.Len()-start < maxWaiting; n++ {
		frame.WritePeeked(w, ds[n], binary)
	}
	w.CloseList(n)
}

// receiveDeferred receives deferred messages by their numbers.
func (c *conn) receiveDeferred(q *request) {
	show := func(ds []core.Delivery, err error) (func(codec.Writer), error) {
		return func(w codec.Writer) {
			codec.WriteList(w.Key("messages"), ds, func(w codec.Writer, d core.Delivery) { frame.WriteDelivery(w, d, q.binary) })
		}, err
	}
	if q.given.has(hasEntity) {
		c.call(q, func(ctx context.Context, id core.Identity) (func(codec.Writer), error) {
			return show(c.bridge.front.ReceiveDeferred(ctx, id, core.At(q.entity), q.sequenceNumbers, q.mode))
		})
		return
	}
	c.onSession(q, func(ctx context.Context, s core.Session) (func(codec.Writer), error) {
		return show(s.ReceiveDeferred(ctx, q.sequenceNumbers, q.mode))
	})
}

// purge removes messages.
func (c *conn) purge(q *request) {
	if !q.given.has(hasMax) {
		q.max = maxGroup
	}
	count := func(n int, err error) (func(codec.Writer), error) {
		return func(w codec.Writer) {
			w.Key("count").Int(int64(n))
		}, err
	}
	if q.given.has(hasEntity) {
		c.call(q, func(ctx context.Context, id core.Identity) (func(codec.Writer), error) {
			return count(c.bridge.front.Purge(ctx, id, core.At(q.entity), q.before, q.max))
		})
		return
	}
	c.onSession(q, func(ctx context.Context, s core.Session) (func(codec.Writer), error) {
		return count(s.Purge(ctx, q.before, q.max))
	})
}
