package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) peek(ctx context.Context, o call) (answer, error) {
	var ds []core.Delivery
	var err error
	if o.session == nil {
		ds, err = c.bridge.front.Peek(ctx, o.id, core.At(o.entity), o.inState, o.from, o.max)
	} else {
		ds, err = o.session.Peek(ctx, o.from, o.max)
	}
	return func(w codec.Writer) {
		w.Key("messages").OpenList()
		n := 0
		for start := w.Len(); n < len(ds) && w.Len()-start < maxWaiting; n++ {
			frame.WritePeeked(w, ds[n], o.binary)
		}
		w.CloseList(n)
	}, err
}

func (c *conn) receiveDeferred(ctx context.Context, o call) (answer, error) {
	var ds []core.Delivery
	var err error
	if o.session == nil {
		ds, err = c.bridge.front.ReceiveDeferred(ctx, o.id, core.At(o.entity), o.sequenceNumbers, o.mode)
	} else {
		ds, err = o.session.ReceiveDeferred(ctx, o.sequenceNumbers, o.mode)
	}
	return func(w codec.Writer) {
		codec.WriteList(w.Key("messages"), ds, func(w codec.Writer, d core.Delivery) { frame.WriteDelivery(w, d, o.binary) })
	}, err
}

func (c *conn) purge(ctx context.Context, o call) (answer, error) {
	if !o.has("max") {
		o.max = maxGroup
	}
	var n int
	var err error
	if o.session == nil {
		n, err = c.bridge.front.Purge(ctx, o.id, core.At(o.entity), o.before, o.max)
	} else {
		n, err = o.session.Purge(ctx, o.before, o.max)
	}
	return func(w codec.Writer) { w.Key("count").Int(int64(n)) }, err
}
