package bridges

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// drainTimeout is how long Last waits until the broker has drained the receiver.
const drainTimeout = 5 * time.Second

// Next waits for one message of an entity. came reports whether one arrived. Next unlocks every
// message that it does not return. It sets o.Deliver and o.Closed.
func Next(ctx context.Context, b core.Broker, id core.Identity, address core.Address, o core.ReceiverOptions, wait time.Duration) (d core.Delivery, came bool, err error) {
	arrived, closed := make(chan core.Delivery, 1), make(chan error, 1)
	o.Deliver, o.Closed = Into(arrived), func(err error) { closed <- err }
	rx, err := b.OpenReceiver(ctx, id, address, o)
	if err != nil {
		return d, false, err
	}
	defer rx.Close()
	rx.AddCredit(1, core.AnyMessage)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	drained := true
	select {
	case d = <-arrived:
		return d, true, nil
	case err = <-closed:
		d, came = left(rx, arrived)
	case <-ctx.Done():
		d, came = left(rx, arrived)
	case <-Ending(ctx):
		d, came, _ = Last(ctx, rx, arrived)
	case <-timer.C: // Last makes the broker look for a message, even if the wait was zero
		d, came, drained = Last(ctx, rx, arrived)
	}
	if came {
		return d, true, nil
	}
	if !drained && ctx.Err() == nil {
		err = core.Refuse(core.Busy, "The gateway could not find out in time whether the entity has messages. Try again.")
	}
	select {
	case err = <-closed:
	default:
	}
	return d, false, err
}

// Into returns a function for ReceiverOptions.Deliver that sends deliveries to a channel. The
// credit must never exceed the free capacity of the channel.
func Into(arrived chan<- core.Delivery) func([]core.Delivery) {
	return func(ds []core.Delivery) {
		for _, d := range ds {
			arrived <- d
		}
	}
}

// Last drains and closes rx. If a message arrives meanwhile, Last returns it: in receive-and-delete
// mode, the broker has already removed the message. drained reports whether the broker has looked
// for a message in time.
func Last(ctx context.Context, rx core.Receiver, arrived <-chan core.Delivery) (d core.Delivery, came, drained bool) {
	done := make(chan struct{})
	rx.Drain(func(int) { close(done) })
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case d := <-arrived:
		return d, true, true
	case <-done:
		drained = true
	case <-ctx.Done():
	case <-timer.C:
	}
	d, came = left(rx, arrived)
	return d, came, drained
}

func left(rx core.Receiver, arrived <-chan core.Delivery) (d core.Delivery, came bool) {
	rx.Close()
	select {
	case d = <-arrived:
		return d, true
	default:
		return d, false
	}
}
