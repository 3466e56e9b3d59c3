package websocket

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// endFeed ends a feed. A wait for a session is cancelled.
func (c *conn) endFeed(q *request) {
	f, err := c.feedOf(q)
	if err != nil {
		c.refuse(q, err)
		return
	}
	end := func() {
		f.forget()
		f.stop(func() { c.answer(q, nil) })
		f.next()
	}
	if f.receiver == nil && f.cancel != nil && f.busy {
		f.forget()
		f.queue = append(f.queue, func() { c.answer(q, nil) })
		f.cancel()
		return
	}
	f.do(q, end)
}

// ended tells the client that the gateway has ended the feed.
func (f *feed) ended(err error) {
	if f.over {
		return
	}
	c := f.conn
	opening := f.receiver == nil && f.busy
	f.forget()
	if opening { // the request that opens the feed gets the error
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

// drop ends the feed because the connection ends. If a request to the feed is in flight, next calls
// drop again later: a session is released after the requests about it.
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

// quiet stops the feed's deliveries because the bridge is stopping. A session stays until the
// connection ends, so that its deliveries can be settled.
func (f *feed) quiet() {
	switch {
	case f.receiver == nil && f.cancel != nil:
		f.cancel()
	case f.held == nil:
		f.stop(nil)
	}
}

// stop closes the receiver, releases what was not written, and then calls
// after, if that is not nil.
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
	if held != nil { // at once: the client's next request for this session waits for its release
		settled := make(chan struct{})
		close(settled)
		held.CloseAfter(settled) // a Close could wait for the Deliver that runs this job
	}
	f.conn.async(func(ctx context.Context) func() {
		receiver.Close()
		if held != nil { // the client learns of the end when the session is free: its next feed may be at another gateway
			select {
			case <-held.Released():
			case <-ctx.Done():
			}
		}
		return func() { // not before Close: the receiver would get the messages again
			f.stopped = true
			f.giveBack(0)
			after()
		}
	})
}

// giveBack unlocks pending deliveries except for the first keep. Deliveries of a session go back
// with the session, unless it may have been taken over; received and deleted ones are lost.
func (f *feed) giveBack(keep int) {
	if keep >= len(f.pending) {
		return
	}
	back := f.pending[keep:]
	f.conn.waiting -= core.SizeOf(back)
	for i := range back {
		if f.mode == core.PeekLock && (f.held == nil || f.lock.Mode == core.NonExclusive) {
			f.conn.release(f.address, back[i].LockToken)
		}
	}
	clear(back)
	f.pending = f.pending[:keep]
}
