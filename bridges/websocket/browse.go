package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) peek(q *request) {
	fetchIn(c, q, func(ctx context.Context, id core.Identity) ([]core.Delivery, error) {
		return c.bridge.front.Peek(ctx, id, core.At(q.entity), q.inState, q.from, q.max)
	}, func(ctx context.Context, s core.Session) ([]core.Delivery, error) {
		return s.Peek(ctx, q.from, q.max)
	}, func(w codec.Writer, ds []core.Delivery) {
		w.Key("messages").OpenList()
		n := 0
		for start := w.Len(); n < len(ds) && w.Len()-start < maxWaiting; n++ {
			frame.WritePeeked(w, ds[n], q.binary)
		}
		w.CloseList(n)
	})
}

func (c *conn) receiveDeferred(q *request) {
	fetchIn(c, q, func(ctx context.Context, id core.Identity) ([]core.Delivery, error) {
		return c.bridge.front.ReceiveDeferred(ctx, id, core.At(q.entity), q.sequenceNumbers, q.mode)
	}, func(ctx context.Context, s core.Session) ([]core.Delivery, error) {
		return s.ReceiveDeferred(ctx, q.sequenceNumbers, q.mode)
	}, func(w codec.Writer, ds []core.Delivery) {
		codec.WriteList(w.Key("messages"), ds, func(w codec.Writer, d core.Delivery) { frame.WriteDelivery(w, d, q.binary) })
	})
}

func (c *conn) purge(q *request) {
	if !q.has("max") {
		q.max = maxGroup
	}
	fetchIn(c, q, func(ctx context.Context, id core.Identity) (int, error) {
		return c.bridge.front.Purge(ctx, id, core.At(q.entity), q.before, q.max)
	}, func(ctx context.Context, s core.Session) (int, error) {
		return s.Purge(ctx, q.before, q.max)
	}, func(w codec.Writer, n int) { w.Key("count").Int(int64(n)) })
}
