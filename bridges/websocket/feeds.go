package websocket

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const (
	// maxAsked limits the messages of a feed that the broker may still send or that are not yet
	// written. The client's credit may be larger. Thus locks do not expire while messages wait here,
	// and a slow client costs little memory. fair.Pending limits the bytes of these messages.
	maxAsked    = 1000
	frameTarget = 128 << 10
)

// feed is a client's subscription to messages. Requests for it wait while it is being opened, and
// while another request uses its session.
type feed struct {
	conn     *conn
	number   int64
	address  core.Address
	mode     core.ReceiveMode
	binary   bool
	receiver core.Receiver
	held     core.Session
	lock     *core.SessionLock
	cancel   context.CancelFunc
	leave    func() // gives up the feed's place among Options.Streams

	requestQueue

	credit     int             // messages that the client still accepts
	asked      int             // how many more deliveries the broker may send
	askedBytes int             // how many more bytes the broker may send; negative if the last delivery exceeded them
	pending    []core.Delivery // delivered by the broker, but not written yet
	drains     *request        // the request to answer once the broker has returned the credit and all messages are written
	taking     bool            // the broker has been asked to give the credit back
	over       bool
	stopped    bool
}

type requestQueue struct {
	busy   bool
	queue  []func()
	leaves bool // the feed ends when no request is in flight
}

func (c *conn) openFeed(q *request) {
	switch {
	case c.feeds[q.feed] != nil:
		c.refuse(q, core.Refuse(core.InvalidArgument, "Feed %d is already open: end it, or choose another number.", q.feed))
		return
	case len(c.feeds) >= c.bridge.opts.MaxFeeds:
		c.refuse(q, core.Refuse(core.QuotaExceeded, "The connection has %d feeds, which is the limit: end some of them.", len(c.feeds)))
		return
	case c.drains != nil:
		c.refuse(q, core.Refuse(core.Busy, "%s", c.drains.text))
		return
	}
	addr, err := c.addressOf(q.entity, core.Listen)
	if err != nil {
		c.refuse(q, err)
		return
	}
	leave, err := c.bridge.opts.Streams.Open(fair.Of(c.Identity), fair.FeedPlaces)
	if err != nil {
		c.refuse(q, err)
		return
	}
	ofSession, cost := q.has("session") || q.nextSession, int64(fair.Link)
	if ofSession {
		cost += fair.SessionReceiver
	}
	letGo, err := c.bridge.opts.Standing.Open(fair.Of(c.Identity), cost)
	if err != nil {
		leave()
		c.refuse(q, err)
		return
	}
	f := &feed{
		conn: c, number: q.feed, address: addr, mode: q.mode, binary: q.binary, leave: func() { leave(); letGo() }, credit: q.credit,
	}
	f.busy = true
	if c.feeds == nil {
		c.feeds = make(map[int64]*feed)
	}
	c.feeds[q.feed] = f
	o := core.ReceiverOptions{
		Mode:   q.mode,
		Accept: q.accept,
		Deliver: func(ds []core.Delivery) {
			ds = slices.Clone(ds)
			c.Owner.Do(func() { f.delivered(ds) })
		},
		Closed: func(err error) { c.Owner.Do(func() { f.ended(err) }) },
	}
	identity := c.Identity
	if ofSession {
		patience := link.CallTimeout
		if q.nextSession {
			patience = max(q.wait, time.Millisecond)
		}
		f.cancel = c.Calls.Await(patience, func(ctx context.Context) func() {
			so := core.SessionOptions{ReceiverOptions: o, ID: q.session, Next: q.nextSession, TakeOver: q.takeOver}
			if q.shared {
				so.Sharing = core.NonExclusive
			}
			s, err := c.bridge.front.AcceptSession(ctx, identity, f.address, so)
			return func() {
				if err == nil {
					l := s.Lock()
					f.held, f.receiver, f.lock = s, s, &l
				}
				f.opened(q, err)
			}
		})
		return
	}
	c.Calls.Begin(func(ctx context.Context) func() {
		r, err := c.bridge.front.OpenReceiver(ctx, identity, f.address, o)
		return func() {
			if err == nil {
				f.receiver = r
			}
			f.opened(q, err)
		}
	})
}

func (f *feed) opened(q *request, err error) {
	c := f.conn
	switch {
	case err != nil:
	case f.over: // ended in the meantime
		err = core.Refuse(core.Timeout, "Feed %d was ended while it was being opened.", f.number)
	default:
		err = c.Identity.Check(core.Listen, f.address.String(), time.Now()) // the rights may have expired in the meantime
	}
	if err != nil {
		c.refuse(q, err)
		f.forget()
		f.stop(nil)
		f.next()
		return
	}
	c.answer(q, func(w codec.Writer) {
		if f.held != nil {
			w.Key("session").Text(f.held.ID())
			w.Key("lockedUntil").Instant(f.held.LockedUntil().UnixMilli())
			if token := f.lock.Token(); !token.IsZero() {
				w.Key("sessionLockToken").Text(token.String())
			}
		}
	})
	if c.drains != nil {
		f.quiet()
	}
	f.next()
	f.ask()
}

func (f *feed) forget() {
	if !f.over {
		f.leave()
	}
	f.over = true
	if f.conn.feeds[f.number] == f {
		delete(f.conn.feeds, f.number)
	}
}

// onFeed runs a request after the earlier requests for its feed, unless the feed has ended by then.
func (c *conn) onFeed(q *request, run func(f *feed)) {
	f := c.feeds[q.feed]
	if f == nil {
		c.refuse(q, core.Refuse(core.NotFound, "Feed %d does not exist: it was not opened, or has ended.", q.feed))
		return
	}
	job := func() {
		if f.over {
			c.refuse(q, core.Refuse(core.NotFound, "Feed %d has ended.", f.number))
			return
		}
		run(f)
	}
	if f.busy {
		f.queue = append(f.queue, job)
		return
	}
	job()
}

func (f *feed) next() {
	f.busy = false
	for len(f.queue) > 0 && !f.busy {
		job := f.queue[0]
		f.queue = f.queue[1:]
		job()
	}
	if f.leaves && !f.busy {
		f.drop()
	}
}

func (c *conn) credit(q *request) {
	c.onFeed(q, func(f *feed) {
		if f.credit+q.credit > maxCredit {
			c.refuse(q, core.Refuse(core.OutOfRange, "credit is %d, so the unused credit of feed %d would be %d: at most %d is allowed.", q.credit, f.number, f.credit+q.credit, maxCredit))
			return
		}
		f.credit += q.credit
		c.answer(q, nil)
		f.ask()
	})
}

func (f *feed) ask() {
	c := f.conn
	if f.receiver == nil || f.drains != nil || f.over || c.drains != nil || c.leaves() || c.choked {
		return
	}
	n, bytes, waits := max(0, min(f.credit, maxAsked)-len(f.pending)-f.asked), 0, false
	if f.asked+n > 0 {
		bytes, waits = c.Memory.Credit(f.askedBytes+core.SizeOf(f.pending), len(c.feeds))
		c.starved = c.starved || waits
	}
	if n > 0 || bytes > 0 {
		f.asked += n
		f.askedBytes += bytes
		f.receiver.AddCredit(n, int64(bytes))
	}
}

func (c *conn) askAll() {
	for _, f := range c.feeds {
		f.ask()
	}
}

func (f *feed) delivered(ds []core.Delivery) {
	f.asked = max(0, f.asked-len(ds))
	size := core.SizeOf(ds)
	f.askedBytes -= size
	f.conn.waiting += size
	f.pending = append(f.pending, ds...)
	if f.stopped {
		f.giveBack()
	}
}

func (c *conn) deliverMore() {
	for again := !c.leaves(); again && !c.choked; {
		again = false
		for _, f := range c.feeds {
			if len(f.pending) > 0 && !c.choked {
				f.write()
				again = again || len(f.pending) > 0
			}
		}
	}
	for _, f := range c.feeds {
		f.drained()
	}
}

func (f *feed) write() {
	c := f.conn
	n := 0
	c.growOut(f.pending[0].Size())
	c.tell("deliver", func(w codec.Writer) {
		w.Key("feed").Int(f.number)
		w.Key("messages").OpenList()
		start := w.Len()
		for n < len(f.pending) && (n == 0 || w.Len()-start+f.pending[n].Size() <= frameTarget) { // a large delivery gets a frame of its own
			frame.WriteDelivery(w, f.pending[n], f.binary)
			n++
		}
		w.CloseList(n)
	})
	c.waiting -= core.SizeOf(f.pending[:n])
	f.credit = max(0, f.credit-n)
	clear(f.pending[:n])
	if f.pending = f.pending[n:]; len(f.pending) == 0 {
		f.pending = nil
	}
	f.ask()
}

func (c *conn) drainFeed(q *request) {
	c.onFeed(q, func(f *feed) {
		f.busy, f.drains = true, q
		if f.receiver == nil { // the bridge is stopping
			return
		}
		f.taking = true
		f.receiver.Drain(func(int) {
			c.Owner.Do(func() { f.taking, f.asked, f.askedBytes = false, 0, 0 })
		})
	})
}

func (f *feed) drained() {
	q := f.drains
	if q == nil || f.taking || len(f.pending) > 0 {
		return
	}
	unspent := f.credit
	f.drains, f.credit = nil, 0
	f.conn.answer(q, func(w codec.Writer) {
		w.Key("unspent").Int(int64(unspent))
	})
	f.next()
}

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
			f.giveBack()
			after()
		}
	}
	if held == nil {
		f.conn.Calls.Begin(end)
	} else {
		f.conn.Calls.Await(link.CallTimeout, end)
	}
}

// giveBack unlocks the pending deliveries. Those under an Exclusive session lock are unlocked when
// that lock ends. Messages in receive-and-delete mode are lost.
func (f *feed) giveBack() {
	f.conn.waiting -= core.SizeOf(f.pending)
	if f.mode == core.PeekLock && (f.held == nil || f.lock.Mode == core.NonExclusive) {
		for i := range f.pending {
			f.conn.queueSettlements(f.address, settleRequest{n: 1}, core.Settlement{Token: f.pending[i].LockToken, Outcome: core.Release})
		}
	}
	f.pending = nil
}
