package https

import (
	"context"
	"strconv"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// take sends messages as they are taken from the entity, one at a time: the next
// is asked for when the one before was handed to the connection. What was handed
// to it, and one message more, is lost with a client that vanishes.
func (b *Bridge) take(ctx context.Context, out *events, q streamQuery) error {
	arrived := make(chan core.Delivery, 1) // the credit is one, so Deliver never blocks
	rx, err := b.front.OpenReceiver(ctx, out.id, out.address, core.ReceiverOptions{
		Mode: core.ReceiveAndDelete, Accept: q.accept, Deliver: bridges.Into(arrived), Closed: out.expel,
	})
	if err != nil {
		return err
	}
	defer rx.Close()
	if err := out.begin(); err != nil {
		return err
	}
	send := func(d core.Delivery) error {
		out.got(d)
		out.message(strconv.FormatInt(d.SequenceNumber, 10), &d, func(w codec.Writer) { frame.WriteDelivery(w, d, q.binary) })
		return out.flush()
	}
	for {
		if err := out.room(ctx); err != nil {
			return err
		}
		rx.AddCredit(1, core.AnyMessage)
		d, err := await(ctx, out, arrived)
		if err == nil {
			err = send(d)
		}
		if err == nil {
			err = out.ended(ctx)
		}
		if err == nil {
			continue
		}
		if d, came, _ := bridges.Last(ctx, rx, arrived); came && send(d) != nil {
			return errGone
		}
		return err
	}
}
