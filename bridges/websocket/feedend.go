package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) endFeed(q *request) {
	if f := c.feeds[q.feed]; f != nil && f.receiver == nil && f.cancel != nil && f.busy {
		f.forget()
		f.queue = append(f.queue, func() { c.answer(q, nil) })
		f.cancel()
		return
	}
	c.onFeed(q, func(f *feed) {
		f.forget()
		f.stop(func() { c.answer(q, nil) })
		f.next()
	})
}

func (f *feed) ended(err error) {
	if f.over {
		return
	}
	c := f.conn
	opening := f.receiver == nil && f.busy
	f.forget()
	if opening { // the answer to the opening request has the error
		if f.cancel != nil {
			f.cancel()
		}
		return
	}
	f.stop(nil)
	if q := f.drains; q != nil {
		f.drains, f.busy = nil, false
		c.refuse(q, err)
	}
	c.tell("ended", func(w codec.Writer) {
		w.Key("feed").Int(f.number)
		c.writeError(w, err, f.address.String(), "link", f.number)
	})
	if !f.busy {
		f.next()
	}
}

// drop ends the feed because the connection ends. If a request for the feed is in flight, drop
// waits: next calls it again after the request, because the request may use the feed's session.
func (f *feed) drop() {
	if f.leaves = f.busy && f.receiver != nil && f.drains == nil && !f.over; f.leaves {
		return
	}
	f.forget()
	if f.cancel != nil {
		f.cancel()
	}
	f.stop(nil)
}

// quiet stops deliveries because the bridge is stopping. It keeps a session until the connection
// ends, so that the client can settle its deliveries.
func (f *feed) quiet() {
	switch {
	case f.receiver == nil && f.cancel != nil:
		f.cancel()
	case f.held == nil:
		f.stop(nil)
	}
}

// stop closes the receiver, unlocks what was not written, and then calls after, if that is not nil.
func (f *feed) stop(after func()) {
	if after == nil {
		after = func() {}
	}
	receiver := f.receiver
	f.receiver, f.taking = nil, false
	if receiver == nil {
		after()
		return
	}
	held := f.held
	if held != nil { // now, because the client's next request for this session waits for its release
		settled := make(chan struct{})
		close(settled)
		held.CloseAfter(settled) // this job may run in a call of Deliver, for which Close would wait
	}
	end := func(ctx context.Context) func() {
		receiver.Close()
		if held != nil { // answer when the session is free, because the client may request it at another gateway next
			select {
			case <-held.Released():
			case <-ctx.Done():
			}
		}
		return func() { // release the messages only after Close: before, the receiver would get them again
			f.stopped = true
			f.giveBack(0)
			after()
		}
	}
	if held == nil {
		f.conn.Calls.Begin(end)
	} else {
		f.conn.Calls.Await(link.CallTimeout, end)
	}
}

// giveBack unlocks the pending deliveries from index keep on. Those under an Exclusive session lock
// are unlocked when that lock ends. Messages in receive-and-delete mode are lost.
func (f *feed) giveBack(keep int) {
	if keep >= len(f.pending) {
		return
	}
	back := f.pending[keep:]
	f.conn.waiting -= core.SizeOf(back)
	for i := range back {
		if f.mode == core.PeekLock && (f.held == nil || f.lock.Mode == core.NonExclusive) {
			f.conn.queueSettlements(f.address, settleRequest{n: 1}, core.Settlement{Token: back[i].LockToken, Outcome: core.Release})
		}
	}
	clear(back)
	f.pending = f.pending[:keep]
}
