package amqp

import (
	"context"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// maxAsked bounds a link's deliveries that are requested from the broker or wait to be sent, so
// that their locks do not end here. fair.Pending bounds their bytes.
const maxAsked = 1000

// acceptProperty is a link property of Crosstown: the client's content types, as in HTTP's Accept.
const acceptProperty = "com.crosstown:accept"

// accepted returns "" if the property is missing. ok is false if it is not a text.
func accepted(properties value.Map) (accept string, ok bool) {
	v, _ := properties.Get(acceptProperty)
	if v == nil {
		return "", true
	}
	return text(v)
}

type receiverLink struct {
	end
	mode     core.ReceiveMode
	receiver core.Receiver
	sessionReceiver
	settlement

	asked      int             // number of deliveries that the broker may still send
	askedBytes int             // number of bytes that the broker may still send; negative if the last delivery exceeded it
	pending    []core.Delivery // delivered by the broker, but not sent yet
	bytes      int
	queued     bool // is in conn.waiting
	taking     bool // the broker has been asked to give unused credit back
	held       bool // is in settleQueue.held
	searched   bool // since the drain began, the broker was asked for messages that are available now
	stopped    bool // the broker delivers no more
}

type sessionReceiver struct {
	session core.Session
	lock    *core.SessionLock
	filter  int  // index of the source's filter that requests a session
	shared  bool // another receiver may take the session over
	cancel  context.CancelFunc
}

type settlement struct {
	sent        map[engine.Tag]uint32   // delivery-ids of deliveries that were sent and are not settled
	provisional map[uint32]*provisional // deliveries with an outcome in a transaction, by delivery-id
	settling    int                     // settlements of the link's deliveries and requests about its session, waiting or in flight
	allSettled  chan struct{}           // closes when settling becomes 0; nil unless the end of the session waits for that
}

func (c *conn) attachReceiver(l *engine.Link, addr core.Address) {
	a := l.Attach()
	r := &receiverLink{end: end{conn: c, link: l, addr: addr}}
	if a.SndSettleMode.Or(wire.SenderMixed) == wire.SenderSettled {
		r.mode = core.ReceiveAndDelete
	}
	l.Data = r
	options := core.ReceiverOptions{
		Mode: r.mode,
		Deliver: func(ds []core.Delivery) {
			ds = slices.Clone(ds)
			c.Owner.Post(func() { r.deliver(ds) })
		},
		Closed: func(err error) { c.Owner.Post(func() { r.close(err) }) },
	}
	var ok bool
	if options.Accept, ok = accepted(a.Properties); !ok {
		l.Refuse(c.refusal(l, core.Refuse(core.InvalidArgument, "The link property %s is not a string.", acceptProperty), addr))
		return
	}
	if err := checkScope(l, addr); err != nil {
		l.Refuse(c.refusal(l, err, addr))
		return
	}
	if at, shared := sessionWanted(a.Source.Filter); at >= 0 {
		r.accept(at, shared, options)
		return
	}
	open(c, l, addr, func(ctx context.Context, id core.Identity) (core.Receiver, error) {
		return c.bridge.front.OpenReceiver(ctx, id, r.addr, options)
	}, r.attach, core.Receiver.Close)
}

// attach answers the attach. It returns false if the client or the broker has ended the link since.
func (r *receiverLink) attach(receiver core.Receiver) bool {
	if r.closed != nil {
		r.link.Refuse(r.conn.refusal(r.link, r.closed, r.addr))
		return false
	}
	r.receiver = receiver
	r.conn.outstanding.receivers++
	terms := engine.Terms{MaxMessageSize: core.MaxMessageSizeKB << 10, Properties: linkProperties(0)}
	if r.link.Attach().Source.DistributionMode == modeMove {
		terms.DistributionMode = modeMove
	}
	if r.session != nil {
		terms.Filter = r.sessionFilters()
		terms.Properties = value.Map{
			{Key: value.Symbol(lockedUntil), Value: ticks(r.session.LockedUntil())},
			{Key: value.Symbol(trackingID), Value: refusals.NewTracking()},
		}
	}
	if !r.link.Accept(terms) {
		r.receiver = nil
		r.conn.outstanding.receivers--
		return false
	}
	if r.conn.drains != "" {
		r.stop()
		return true
	}
	r.flowed() // the client may have given credit before we answered the attach
	return true
}

// interrupt detaches the link because a settlement failed for a reason that may pass. If it
// rejected the delivery instead, the Go SDK would regard it as settled, and report success at the
// next attempt. Without the link, clients settle through $management, which answers each attempt.
func (r *receiverLink) interrupt(err error) {
	if r.link.Open() {
		why := r.conn.refusal(r.link, err, r.addr)
		why.Condition = wire.CondDetachForced
		r.link.Detach(why)
		r.detached()
	}
}

// detached unlocks the deliveries that were not sent. The others stay locked, except in a session.
func (r *receiverLink) detached() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stop()
}

func (r *receiverLink) stop() {
	if r.receiver == nil {
		return
	}
	receiver := r.receiver
	r.receiver = nil
	r.conn.outstanding.receivers--
	if r.session != nil {
		r.closeSession()
		// Answer the detach when the session is free, because the client may request it elsewhere.
		r.link.AnswerLater()
		r.conn.Calls.Await(link.CallTimeout, func(ctx context.Context) func() {
			select {
			case <-r.session.Released():
			case <-ctx.Done():
			}
			return func() {
				r.conn.sessions--
				r.link.Answer()
			}
		})
	}
	r.conn.Calls.Begin(func(context.Context) func() {
		receiver.Close()
		return func() { // release the messages only after Close: before, the receiver would get them again
			r.stopped = true
			r.giveBack(0)
			r.let(r.pending) // the broker deleted these at delivery (receive and delete): they are lost
			r.pending = nil
		}
	})
}

// closeSession closes the session after the client's settlements, which need the session's lock.
func (r *receiverLink) closeSession() {
	if r.settling == 0 {
		r.session.Close()
		return
	}
	r.allSettled = make(chan struct{})
	r.session.CloseAfter(r.allSettled)
}

func (r *receiverLink) settledOne() {
	r.settling--
	if r.settling == 0 && r.allSettled != nil {
		close(r.allSettled)
		r.allSettled = nil
	}
}

// giveBack unlocks the pending deliveries from index keep on. Those of a session stay locked until
// it is released or taken over, to preserve their order.
func (r *receiverLink) giveBack(keep int) {
	if r.mode == core.ReceiveAndDelete || r.session != nil && !(r.shared && r.stopped) || keep >= len(r.pending) {
		return
	}
	for i := range r.pending[keep:] {
		r.conn.settle(r.addr, settleItem{}, core.Settlement{Token: r.pending[keep+i].LockToken, Outcome: core.Release})
	}
	r.let(r.pending[keep:])
	r.pending = r.pending[:keep]
}

func (r *receiverLink) count(n, bytes int) {
	if r.mode == core.PeekLock {
		r.conn.outstanding.pending += n
	}
	r.bytes += bytes
	r.conn.outstanding.bytes += bytes
}

func (r *receiverLink) let(ds []core.Delivery) {
	r.count(-len(ds), -core.SizeOf(ds))
	clear(ds)
}

func (r *receiverLink) flowed() {
	if r.receiver == nil {
		r.link.Drained() // answers a drain, if there is one, while the bridge is stopping
		return
	}
	r.searched = r.searched && r.link.Draining()
	if r.link.Draining() && !r.searched && !r.taking {
		r.searched = true // credit that comes with a drain is for messages that are available now
		r.request()
	}
	if r.asked > 0 && (r.link.Draining() || r.asked+len(r.pending) > int(r.link.Credit())) {
		r.takeBack()
		return
	}
	r.giveBack(int(r.link.Credit()))
	r.send()
}

// takeBack requests unused credit back, because the client drains or has lowered its credit.
func (r *receiverLink) takeBack() {
	if r.taking {
		return
	}
	r.taking = true
	r.receiver.Drain(func(int) {
		r.conn.Owner.Post(r.tookBack)
	})
}

func (r *receiverLink) tookBack() {
	r.taking = false
	r.asked, r.askedBytes = 0, 0
	if r.receiver == nil {
		return
	}
	if r.link.Draining() && !r.searched {
		r.flowed()
		return
	}
	r.giveBack(int(r.link.Credit()))
	r.send()
}

func (r *receiverLink) ask() {
	if !r.link.Draining() {
		r.request()
	}
}

func (r *receiverLink) request() {
	if r.taking || r.receiver == nil || r.conn.drains != "" {
		return
	}
	if r.conn.settleQueues[r.addr].holds(r) {
		r.searched = false
		return
	}
	o := &r.conn.bridge.opts
	n := min(int(r.link.Credit()), maxAsked) - len(r.pending)
	if n > 0 && r.mode == core.PeekLock {
		own, all := o.MaxUnsettled-r.link.Unsettled()-len(r.pending), o.MaxConnectionUnsettled-r.conn.unsettled()
		r.conn.outstanding.atLimit = r.conn.outstanding.atLimit || own <= 0 || all <= 0
		r.conn.outstanding.noMemory = r.conn.outstanding.noMemory || all <= 0
		n = min(n, own, all)
	}
	n = max(0, n-r.asked)
	bytes, waits := 0, false
	if r.asked+n > 0 {
		bytes, waits = r.conn.Memory.Credit(r.askedBytes+r.bytes, r.conn.outstanding.receivers)
		r.conn.outstanding.noMemory = r.conn.outstanding.noMemory || waits
	}
	if n > 0 || bytes > 0 {
		r.asked += n
		r.askedBytes += bytes
		r.receiver.AddCredit(n, int64(bytes))
	}
}

func (r *receiverLink) deliver(ds []core.Delivery) {
	size := core.SizeOf(ds)
	r.asked, r.askedBytes = max(0, r.asked-len(ds)), r.askedBytes-size
	r.pending = append(r.pending, ds...)
	r.count(len(ds), size)
	if r.stopped {
		r.giveBack(0)
		return
	}
	if over := r.conn.unsettled() - r.conn.bridge.opts.MaxConnectionUnsettled; over > 0 && r.mode == core.PeekLock {
		r.giveBack(max(0, len(r.pending)-over))
	}
	r.send()
}

func (r *receiverLink) send() {
	if !r.queued && r.resume() {
		r.queued = true
		r.conn.waiting = append(r.conn.waiting, r)
	}
}

// resume sends pending deliveries, requests more, and answers a drain when none are left. left is
// true if only the writer delays the rest.
func (r *receiverLink) resume() (left bool) {
	n, f := 0, form{inSession: r.session != nil}
	for r.receiver != nil && n < len(r.pending) && r.link.Ready() && r.conn.eng.Buffered() <= fewUnsaid {
		d := &r.pending[n]
		var payload engine.Payload
		payload, r.conn.scratch = payloadOf(r.conn.scratch, d, f)
		tag := tagOf(d)
		var until time.Time // in a session, locks do not end one by one
		if r.session == nil {
			until = d.LockedUntil
		}
		id := r.link.Send(tag, r.mode == core.ReceiveAndDelete, until, payload)
		if r.shared && r.mode == core.PeekLock {
			r.sent[tag] = id
		}
		n++
	}
	r.let(r.pending[:n])
	r.pending = slices.Delete(r.pending, 0, n)
	r.ask()
	if len(r.pending) > 0 && r.link.Credit() > 0 && r.receiver != nil {
		return true
	}
	r.queued = false
	if (len(r.pending) == 0 || r.link.Credit() == 0) && r.link.Draining() && !r.taking && !r.held && r.asked == 0 {
		r.searched = false
		r.link.Drained()
	}
	return false
}

// tagOf returns the delivery-tag of a locked delivery: its lock token in .NET's byte order.
func tagOf(d *core.Delivery) engine.Tag {
	return engine.Tag(swapToken(d.LockToken))
}

// swapToken converts between the byte orders of RFC 9562 and .NET, in which the first three fields
// are little-endian.
func swapToken(t core.LockToken) core.LockToken {
	t[0], t[1], t[2], t[3] = t[3], t[2], t[1], t[0]
	t[4], t[5] = t[5], t[4]
	t[6], t[7] = t[7], t[6]
	return t
}
