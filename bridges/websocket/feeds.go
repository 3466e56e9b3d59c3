package websocket

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const (
	// maxAsked is the largest number of messages that a feed has requested from the broker or holds for
	// its client, whatever credit the client gives. So their locks do not end here, and a client that
	// does not read costs little memory. fair.Pending bounds their bytes.
	maxAsked    = 1000
	frameTarget = 128 << 10 // bytes of deliveries after which a frame is full
)

// feed is a subscription to messages. Requests for it wait while it is being opened, and while its
// session is in use.
type feed struct {
	conn     *conn
	number   int64
	address  core.Address
	mode     core.ReceiveMode
	binary   bool // bodies are requested as bytes
	receiver core.Receiver
	held     core.Session       // the receiver, if it has a session
	lock     *core.SessionLock  // of the session
	cancel   context.CancelFunc // of the wait for a session
	leave    func()             // frees the feed's place among all feeds

	requestQueue

	credit     int             // of the client, not spent
	asked      int             // deliveries that the broker may still send
	askedBytes int             // the same in bytes; below zero if the last delivery was larger
	pending    []core.Delivery // delivered by the broker, not written yet
	drains     *request        // to be answered when the broker has drained and all is written
	taking     bool            // credit is being taken back
	over       bool            // ended, by whomever
	stopped    bool            // the broker delivers no more
}

// requestQueue holds the requests of a feed that wait for one in flight.
type requestQueue struct {
	busy   bool     // something is in flight that requests have to wait for
	queue  []func() // requests that wait
	leaves bool     // the feed ends when nothing is in flight
}

// feedOf finds the feed that a request names.
func (c *conn) feedOf(q *request) (*feed, error) {
	if f := c.feeds[q.feed]; f != nil {
		return f, nil
	}
	return nil, core.Refuse(core.NotFound, "Feed %d does not exist: it was not opened, or has ended.", q.feed)
}

// openFeed begins to receive.
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
	leave, err := c.bridge.opts.Streams.Open(fair.Of(c.identity), fair.FeedPlaces)
	if err != nil {
		c.refuse(q, err)
		return
	}
	letGo, err := c.bridge.opts.Standing.Open(fair.Of(c.identity), fair.Link)
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
			c.owner.Do(func() { f.delivered(ds) })
		},
		Closed: func(err error) { c.owner.Do(func() { f.ended(err) }) },
	}
	identity := c.identity
	if q.has("session") || q.nextSession {
		f.cancel = c.spawn(f.patience(q), func(ctx context.Context) func() {
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
	c.async(func(ctx context.Context) func() {
		r, err := c.bridge.front.OpenReceiver(ctx, identity, f.address, o)
		return func() {
			if err == nil {
				f.receiver = r
			}
			f.opened(q, err)
		}
	})
}

// patience returns how long to wait for a session.
func (f *feed) patience(q *request) time.Duration {
	if q.nextSession {
		return max(q.wait, time.Millisecond)
	}
	return operationTimeout
}

// opened answers the request that opens the feed.
func (f *feed) opened(q *request, err error) {
	c := f.conn
	switch {
	case err != nil:
	case f.over: // ended in the meantime
		err = core.Refuse(core.Timeout, "Feed %d was ended.", f.number)
	default:
		err = c.identity.Check(core.Listen, f.address.String(), time.Now()) // the grant may have ended meanwhile
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

// forget ends the feed's entry in the connection, so that its number can be used again.
func (f *feed) forget() {
	if !f.over {
		f.leave()
	}
	f.over = true
	if f.conn.feeds[f.number] == f {
		delete(f.conn.feeds, f.number)
	}
}

// do runs a request once earlier requests are done, or refuses it if the feed has ended by then.
func (f *feed) do(q *request, run func()) {
	job := func() {
		if f.over {
			f.conn.refuse(q, core.Refuse(core.NotFound, "Feed %d has ended.", f.number))
			return
		}
		run()
	}
	if f.busy {
		f.queue = append(f.queue, job)
		return
	}
	job()
}

// next runs waiting requests until one of them makes the others wait again.
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

// callSession carries out a request that needs the feed's session, before the requests that follow.
func (f *feed) callSession(q *request, work func(ctx context.Context, s core.Session) (func(codec.Writer), error)) {
	f.do(q, func() {
		if f.held == nil {
			f.conn.refuse(q, core.Refuse(core.NotAllowed, "Feed %d has no session.", f.number))
			return
		}
		f.busy = true
		session := f.held
		f.conn.async(func(ctx context.Context) func() {
			more, err := work(ctx, session)
			return func() {
				f.conn.conclude(q, err, more)
				f.next()
			}
		})
	})
}

// credit adds to the feed's credit.
func (c *conn) credit(q *request) {
	f, err := c.feedOf(q)
	if err != nil {
		c.refuse(q, err)
		return
	}
	f.do(q, func() {
		if f.credit+q.credit > maxCredit {
			c.refuse(q, core.Refuse(core.OutOfRange, "credit is %d: with its unused credit the feed would have %d, but at most %d is allowed.", q.credit, f.credit+q.credit, maxCredit))
			return
		}
		f.credit += q.credit
		c.answer(q, nil)
		f.ask()
	})
}

// ask gives the broker as much credit as the client has given and the limits allow.
func (f *feed) ask() {
	c := f.conn
	if f.receiver == nil || f.drains != nil || f.over || c.drains != nil || c.leaves() || c.choked {
		return
	}
	n, bytes, waits := max(0, min(f.credit, maxAsked)-len(f.pending)-f.asked), 0, false
	if f.asked+n > 0 {
		bytes, waits = c.memory.Credit(f.askedBytes+core.SizeOf(f.pending), len(c.feeds))
		c.starved = c.starved || waits
	}
	if n > 0 || bytes > 0 {
		f.asked += n
		f.askedBytes += bytes
		f.receiver.AddCredit(n, int64(bytes))
	}
}

// askAll makes all feeds ask for messages.
func (c *conn) askAll() {
	for _, f := range c.feeds {
		f.ask()
	}
}

// delivered takes what the broker delivers.
func (f *feed) delivered(ds []core.Delivery) {
	f.asked = max(0, f.asked-len(ds))
	size := core.SizeOf(ds)
	f.askedBytes -= size
	f.conn.waiting += size
	f.pending = append(f.pending, ds...)
	if f.stopped {
		f.giveBack(0)
	}
}

// deliverMore writes deliveries while the client keeps up.
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

// write writes a frame of deliveries.
func (f *feed) write() {
	c := f.conn
	n := 0
	c.growOut(f.pending[0].Size())
	c.tell("deliver", func(w codec.Writer) {
		w.Key("feed").Int(f.number)
		w.Key("messages").OpenList()
		start := w.Len()
		for n < len(f.pending) && (n == 0 || w.Len()-start+f.pending[n].Size() <= frameTarget) { // a large one has a frame of its own
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

// drainFeed takes the client's credit back once the deliveries in flight have arrived.
func (c *conn) drainFeed(q *request) {
	f, err := c.feedOf(q)
	if err != nil {
		c.refuse(q, err)
		return
	}
	f.do(q, func() {
		f.busy, f.drains = true, q
		if f.receiver == nil { // the bridge is stopping
			return
		}
		f.taking = true
		f.receiver.Drain(func(int) { c.owner.Do(f.tookBack) })
	})
}

func (f *feed) tookBack() {
	f.taking, f.asked, f.askedBytes = false, 0, 0
}

// drained answers a drain once all deliveries are written.
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
