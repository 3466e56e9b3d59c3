package engine

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// partial is a message of which not all frames have arrived.
type partial struct {
	active  bool
	discard bool        // the message is refused, and only its size counts
	why     *wire.Error // why the message is refused; nil if it is too large
	head    []byte      // the beginning of a refused message
	size    int64
	granted int64 // bytes of memory that the handler has reserved
	pace    fair.Pace
	Message
}

// keptHead bytes of a refused message are kept: in a request, they contain the reply address.
const keptHead = 2 << 10

// A message that is too large is read to its end and then rejected: if the link were detached at
// once, some clients would wait until their time-out. Only a far larger message detaches the link.
const (
	farTooLargeFactor = 4
	farTooLargeBytes  = 1 << 20
)

// maxLeap bounds the factor by which the memory of a message grows in one step, if the message
// turns out to be larger than its first frame said. From 64 KiB the steps are 1, 18 and 100 MiB,
// which leaves little garbage.
const maxLeap = 17

// receive carries out a transfer, AMQP 1.0 §2.6.12. left is the number of missing payload bytes.
func (s *Session) receive(t *wire.Transfer, payload []byte, left int) {
	if s.window == 0 {
		s.End(fault(wire.CondWindowViolation, "the peer sent a transfer that exceeds the session window"))
		return
	}
	if !s.admits(t, payload, left) {
		s.conn.stalled = true
		return
	}
	s.window--
	s.nextIncoming++
	if s.window <= s.conn.opts.IncomingWindow/2 {
		s.touch()
	}
	l := s.links[t.Handle]
	switch {
	case l == nil:
		s.conn.missed(t.State)
		s.End(fault(wire.CondUnattachedHandle, fmt.Sprintf("the peer sent a transfer on handle %d, which is not attached", t.Handle)))
	case l.state == linkDetached:
		s.conn.missed(t.State)
	case l.attach.Role == wire.RoleReceiver:
		s.conn.missed(t.State)
		l.fail(fault(wire.CondNotAllowed, "The peer sent a transfer on a link on which it receives."))
	case !l.partial.active && !l.start(t, left > 0):
		s.conn.missed(t.State)
	default:
		l.more(t, payload, left)
	}
}

// admits reports whether the handler has memory for a frame. left is how many bytes of its payload
// have not arrived. For the first frame of a message, admits requests all memory that the message
// is known to need, so that the message waits only once.
func (s *Session) admits(t *wire.Transfer, payload []byte, left int) bool {
	l := s.links[t.Handle]
	if l == nil || l.state != linkOpen || l.attach.Role == wire.RoleReceiver || l.partial.active || t.Aborted {
		return true
	}
	l.granted, l.denied = int64(len(payload)+left), false
	if t.More {
		l.granted = max(l.granted, min(int64(wire.MessageSize(payload)), l.most()))
	} else if l.maxSize > 0 && uint64(l.granted) > l.maxSize {
		return true // too large, so it will be discarded
	}
	switch s.conn.handler.Reserve(l, l.granted, s.conn.reserved > 0) {
	case Granted:
	case Later:
		return false
	case Never:
		l.denied = true
	}
	return true
}

func (l *Link) most() int64 {
	if l.maxSize == 0 || l.maxSize > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(l.maxSize)
}

// start takes a message's first transfer. more is true if bytes of t have not arrived. start
// returns false if it ended l.
func (l *Link) start(t *wire.Transfer, more bool) bool {
	switch {
	case !t.DeliveryID.Set || t.DeliveryTag == nil:
		l.fail(fault(wire.CondInvalidField, "The first transfer of a delivery must have a delivery-id and a delivery-tag."))
		return false
	case l.credit == 0:
		l.fail(fault(wire.CondTransferLimitExceeded, "The peer sent a transfer without link credit."))
		return false
	case t.Resume:
		l.fail(fault(wire.CondNotImplemented, "Deliveries cannot be resumed."))
		return false
	}
	c := l.session.conn
	l.credit--
	l.deliveryCount++
	l.owed++
	l.partial = partial{active: true, Message: Message{ID: t.DeliveryID.V, Format: t.MessageFormat.Or(wire.FormatMessage)}}
	c.partials++
	more = more || t.More
	if more {
		l.partial.pace = fair.Begin(c.heard)
	}
	if l.denied {
		l.refuse(c.handler.Crowded(l, l.granted))
		return true
	}
	if more {
		l.reserve(l.granted)
	}
	return true
}

// reserve sets the total that the handler has reserved for the arriving message to n bytes.
func (l *Link) reserve(n int64) {
	l.session.conn.reserved += n - l.partial.granted
	l.partial.granted = n
}

func (c *Conn) missed(state wire.DeliveryState) {
	if state, ok := state.(wire.TransactionalState); ok {
		c.handler.Missed(state)
	}
}

func (l *Link) refuse(why *wire.Error) {
	l.session.conn.missed(l.partial.State)
	l.reserve(0)
	l.partial.discard, l.partial.why = true, why
	l.partial.head, l.partial.Payload = bytes.Clone(l.partial.Payload[:min(len(l.partial.Payload), keptHead)]), nil
}

func (l *Link) more(t *wire.Transfer, payload []byte, left int) {
	p, c := &l.partial, l.session.conn
	if t.DeliveryID.Set && t.DeliveryID.V != p.ID {
		c.missed(t.State)
		l.fail(fault(wire.CondInvalidField, "The peer began a delivery before it had completed the previous one."))
		return
	}
	if t.Aborted { // §2.7.5: an aborted delivery counts as settled, so no outcome is sent
		l.dropPartial()
		l.Replenish(1)
		return
	}
	p.Settled = p.Settled || t.Settled.Or(false)
	if t.State != nil {
		p.State = t.State
		if state, ok := t.State.(wire.TransactionalState); ok && (t.More || left > 0) {
			state.TxnID = bytes.Clone(state.TxnID) // copied, because it is in the read buffer
			p.State = state
		}
	}
	begins := p.size == 0
	p.size += int64(len(payload) + left)
	if t.More || left > 0 {
		p.pace.Went(len(payload), c.heard)
	}
	tooLarge := l.maxSize > 0 && uint64(p.size) > l.maxSize
	switch {
	case tooLarge && !p.discard:
		l.refuse(nil)
	case !p.discard && p.granted > 0 && p.size > p.granted:
		l.extend()
	}
	if begins && p.discard {
		p.head = bytes.Clone(payload[:min(len(payload), keptHead)])
	}
	if tooLarge && l.farTooLarge() {
		return
	}
	if p.discard {
		c.missed(t.State)
	} else {
		p.append(payload, left)
	}
	switch {
	case left > 0:
		c.begun.link, c.begun.last = l, !t.More
	case !t.More:
		l.complete()
	}
}

func (l *Link) complete() {
	if l.partial.discard {
		l.reject()
		return
	}
	m := l.partial.Message
	if cap(m.Payload)-len(m.Payload) > len(m.Payload)/8 { // give back unused capacity: the handler may keep the message for long
		m.Payload = bytes.Clone(m.Payload)
	}
	l.dropPartial()
	l.session.conn.handler.Received(l, m)
}

// extend requests more memory for a message that is larger than its first frame said: enough to
// need few further steps, or else twice what it has. The message cannot wait for memory, because
// the connection would not be read meanwhile, and other messages on it may hold the memory.
func (l *Link) extend() {
	p, c := &l.partial, l.session.conn
	var wanted int64
	for _, factor := range [...]int64{maxLeap, 2} {
		wanted = max(p.size, min(factor*p.granted, l.most()))
		if c.handler.Reserve(l, wanted-p.granted, true) == Granted {
			l.reserve(wanted)
			return
		}
	}
	l.refuse(c.handler.Crowded(l, wanted))
}

// append appends payload. It makes room for all bytes that are reserved for the message, because
// room for bytes that never arrive costs only address space.
func (p *partial) append(payload []byte, left int) {
	if need := len(p.Payload) + len(payload) + left; need > cap(p.Payload) {
		p.Payload = append(uncleared(max(need, int(p.granted))), p.Payload...)
	}
	p.Payload = append(p.Payload, payload...)
}

// uncleared returns an empty slice with room for n bytes, which make would set to zero.
func uncleared(n int) []byte {
	if n == 0 {
		return nil
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)[:0]
}

func (l *Link) farTooLarge() bool {
	p, handler := &l.partial, l.session.conn.handler
	if over := uint64(p.size) - l.maxSize; over <= farTooLargeBytes || uint64(p.size) <= farTooLargeFactor*l.maxSize {
		return false
	}
	why := handler.TooLarge(l, p.size)
	handler.Refused(l, p.head, why)
	l.fail(why)
	return true
}

func (l *Link) reject() {
	p := l.partial
	l.dropPartial()
	why := p.why
	if why == nil {
		why = l.session.conn.handler.TooLarge(l, p.size)
	}
	if !p.Settled {
		l.Settle(p.ID, wire.Rejected{Error: why})
	}
	l.Replenish(1)
	l.session.conn.handler.Refused(l, p.head, why)
}

func (l *Link) dropPartial() {
	if l.partial.active {
		l.reserve(0)
		l.session.conn.partials--
	}
	l.partial = partial{}
}

// overdue detaches links whose messages arrive too slowly. next is when the next link is due.
func (c *Conn) overdue(now time.Time) (next time.Time) {
	if c.partials == 0 {
		return time.Time{}
	}
	for l := range c.Links() {
		if !l.partial.active {
			continue
		}
		due := l.partial.pace.Due()
		switch {
		case !now.Before(due):
			l.fail(c.handler.TooSlow(l, l.partial.size))
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next
}

func (l *Link) Settle(id uint32, state wire.DeliveryState) {
	if l.state == linkOpen {
		l.session.say(wire.RoleReceiver, id, true, state)
	}
}

// Replenish reports that the handler is done with n messages, so the peer may send as many more.
func (l *Link) Replenish(n int) {
	l.owed -= min(uint32(n), l.owed)
	if !l.dirty && l.state == linkOpen {
		l.dirty = true
		l.session.dirtyLinks = append(l.session.dirtyLinks, l)
		l.session.touch()
	}
}

// grant gives the peer credit if a flow is worth it: the peer has no credit, or would get at least
// a quarter of its allowance.
func (l *Link) grant() {
	if l.state != linkOpen || l.attach.Role == wire.RoleReceiver || l.owed >= l.allowance {
		return
	}
	free := l.allowance - l.owed
	if free <= l.credit || l.credit > 0 && free-l.credit < (l.allowance+3)/4 {
		return
	}
	l.credit = free
	l.session.sayFlow(l, false)
}

const (
	// LargeFrame is the size in bytes from which Receive takes a transfer frame in parts, so that
	// the rest is read into its final memory. Smaller frames are cheaper to take whole.
	LargeFrame = 8 << 10
	// LeastBegun is how many bytes of such a frame must have arrived before Receive takes a part.
	LeastBegun = 1 << 10
)

// begun is a transfer frame whose performative has arrived, but not all of its payload.
type begun struct {
	left int   // bytes of the payload that have not arrived
	link *Link // the link whose message the bytes belong to; nil if they are discarded
	last bool  // the frame ends that message
}

func (c *Conn) begin(b []byte) int {
	if c.state != stateOpened || len(b) < LeastBegun {
		return 0
	}
	f, n := wire.CutTransfer(b)
	if n < LargeFrame {
		return 0
	}
	c.begun = begun{left: n - len(b)}
	if c.frame(f, c.begun.left); c.stalled {
		c.begun = begun{}
		return 0
	}
	return len(b)
}

func (c *Conn) goOn(b []byte) int {
	n := min(len(b), c.begun.left)
	if n > 0 {
		copy(c.Into(), b)
		c.came(n)
	}
	return n
}

// Into returns the memory for the peer's next bytes if they belong to a message, or nil if they are
// for Receive. A caller that reads into this memory must then call Filled before it calls Receive.
func (c *Conn) Into() []byte {
	p := c.filling()
	if p == nil || p.discard {
		return nil
	}
	at := len(p.Payload)
	return p.Payload[at : at+c.begun.left]
}

// Filled reports that n bytes of the peer were read into the memory that Into returned.
func (c *Conn) Filled(n int, now time.Time) {
	c.heard = now
	c.came(n)
}

// filling returns the message to which the rest of the begun frame belongs, or nil.
func (c *Conn) filling() *partial {
	if l := c.begun.link; l != nil && l.state == linkOpen && l.partial.active {
		return &l.partial
	}
	return nil
}

// came counts n payload bytes that have arrived in their final memory.
func (c *Conn) came(n int) {
	c.begun.left -= n
	p, ended := c.filling(), c.begun
	if c.begun.left == 0 {
		c.begun = begun{}
	}
	if p == nil {
		return
	}
	p.pace.Went(n, c.heard)
	if !p.discard {
		p.Payload = p.Payload[:len(p.Payload)+n]
	}
	if ended.left == 0 && ended.last {
		ended.link.complete()
	}
}
