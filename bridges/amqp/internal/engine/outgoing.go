package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// maxUnsaid is the number of untaken bytes at which a delivery is cut off; see largeRoom.
const maxUnsaid = 128 << 10

// Payload is an encoded message in consecutive parts. Copied may be changed after Send has
// returned; the other parts must not change until the message is sent.
type Payload struct {
	Copied     []byte
	Body, Tail []byte
}

func (p *Payload) size() int { return len(p.Copied) + len(p.Body) + len(p.Tail) }

// rest is the unsent part of a delivery that was cut off: the peer's session window was full, or
// too many bytes were waiting for Take.
type rest struct {
	link    *Link
	payload Payload
}

// Ready reports whether Send may be called: the link has credit, and the session window is open.
func (l *Link) Ready() bool {
	return l.state == linkOpen && l.credit > 0 && l.session.remoteWindow > 0 && l.session.rest.link == nil
}

// Send sends a delivery on a link that is Ready, and returns its delivery-id. The peer may settle
// it until the given time; zero means for ever. As in Service Bus, a settled delivery has an empty
// tag.
func (l *Link) Send(tag Tag, settled bool, until time.Time, payload Payload) uint32 {
	s := l.session
	s.sayDispositions() // some clients require the outcome of a request before its response
	id := s.nextDelivery
	s.nextDelivery++
	l.deliveryCount++
	l.credit--
	t := &s.conn.transfer
	s.conn.tag = tag
	*t = wire.Transfer{
		Handle:        l.handle,
		DeliveryID:    value.Some(id),
		DeliveryTag:   s.conn.tag[:],
		MessageFormat: value.Some(wire.FormatMessage),
		Settled:       value.Some(settled),
	}
	if settled {
		t.DeliveryTag = s.conn.tag[:0]
	} else {
		s.unsettled[id] = sent{link: l, tag: tag, until: core.Millis(until)}
		l.pending++
		s.conn.unsettled++
	}
	if s.sayTransfer(t, &payload); payload.size() > 0 {
		payload.Copied = slices.Clone(payload.Copied)
		s.rest = rest{link: l, payload: payload}
		s.conn.resting = append(s.conn.resting, s)
	}
	return id
}

func (c *Conn) sayRests() {
	if c.Buffered() > maxUnsaid {
		return
	}
	resting := c.resting
	c.resting = nil // a failing sayTransfer closes the connection, which calls Flush, which comes back here
	for _, s := range resting {
		if s.rest.link == nil {
			continue
		}
		t := &c.transfer
		*t = wire.Transfer{Handle: s.rest.link.handle}
		if s.sayTransfer(t, &s.rest.payload); s.rest.payload.size() > 0 {
			c.resting = append(c.resting, s)
		} else {
			s.rest = rest{}
		}
	}
}

func (c *Conn) Unsent() int {
	n := 0
	for _, s := range c.resting {
		n += s.rest.payload.size()
	}
	return n
}

// sayTransfer encodes frames until payload or the peer's window is used up, or maxUnsaid bytes wait
// for Take. The rest stays in payload.
func (s *Session) sayTransfer(t *wire.Transfer, payload *Payload) {
	c := s.conn
	copied := payload.size()
	refer := c.opts.ByReference > 0 && len(payload.Body) >= c.opts.ByReference
	if refer {
		copied -= len(payload.Body)
	}
	copied = min(copied, maxUnsaid)
	c.grow(copied + (copied/int(c.frameMax)+2)*frameOverhead)
	for start := c.Buffered(); s.remoteWindow > 0 && c.Buffered() <= max(start, maxUnsaid); {
		var n int
		var err error
		if c.out, n, err = wire.AppendTransfer(c.out, s.channel, t, payload.size(), c.frameMax); err != nil {
			*payload = Payload{}
			c.fail(err)
			return
		}
		n = c.say(&payload.Copied, n, false)
		n = c.say(&payload.Body, n, refer)
		c.say(&payload.Tail, n, false)
		s.remoteWindow--
		s.nextOutgoing++
		if payload.size() == 0 {
			return
		}
		*t = wire.Transfer{Handle: t.Handle}
	}
}

const frameOverhead = 64

// say moves up to n bytes of part to the output, as a copy or, if refer is true, as a reference to
// part's memory. It returns how many of the n bytes part lacked.
func (c *Conn) say(part *[]byte, n int, refer bool) int {
	k := min(n, len(*part))
	if b := (*part)[:k]; refer && k > 0 {
		c.refs = append(c.refs, reference{len(c.out), b})
		c.referred += k
	} else {
		c.out = append(c.out, b...)
	}
	*part = (*part)[k:]
	return n - k
}

// Drained answers the peer's drain by using up the remaining credit.
func (l *Link) Drained() {
	if l.state != linkOpen || !l.draining {
		return
	}
	l.draining = false
	l.deliveryCount += l.credit
	l.credit = 0
	l.session.sayFlow(l, true)
}

// flowed carries out the part of a flow that concerns the link, §2.6.7.
func (l *Link) flowed(f *wire.Flow) {
	if l.state > linkOpen {
		return
	}
	if l.attach.Role == wire.RoleSender {
		// The peer may use up credit without sending.
		if used := f.DeliveryCount.Or(l.deliveryCount) - l.deliveryCount; used > 0 && used <= l.credit {
			l.deliveryCount += used
			l.credit -= used
			l.Replenish(0)
		}
		if f.Echo && l.state == linkOpen {
			l.session.sayFlow(l, false)
		}
		return
	}
	if f.LinkCredit.Set {
		l.credit = left(f.LinkCredit.V, l.deliveryCount-f.DeliveryCount.Or(0))
	}
	l.draining = f.Drain
	if l.state == linkAsked {
		return // Accept uses the new credit
	}
	if f.Echo && !f.Drain { // the answer to a drain comes from Drained
		l.session.sayFlow(l, false)
	}
	l.session.conn.handler.Flowed(l)
}

const (
	// smallRoom is the largest output buffer, in bytes, that an idle connection keeps.
	smallRoom = 4 << 10
	// largeRoom is the size of larger output buffers. It has room for maxUnsaid bytes and a frame.
	largeRoom = 256 << 10
)

var largeRooms = sync.Pool{New: func() any { return new([largeRoom]byte) }}

func (c *Conn) grow(n int) {
	need := len(c.out) + n
	switch {
	case need <= cap(c.out):
	case need > smallRoom && need <= largeRoom && cap(c.out) < largeRoom:
		c.out = append(largeRooms.Get().(*[largeRoom]byte)[:0], c.out...)
	default:
		c.out = slices.Grow(c.out, n)
	}
}

// Spare takes over the slice out of Take, whose bytes the caller has sent to the peer. It
// returns the argument spare for the next Take.
func Spare(out []byte) []byte {
	switch {
	case cap(out) == largeRoom:
		largeRooms.Put((*[largeRoom]byte)(out[:largeRoom]))
	case cap(out) <= smallRoom:
		return out
	}
	return nil
}
