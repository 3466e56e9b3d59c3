package engine

import (
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// rest is what the peer's session window has not let through of a delivery.
type rest struct {
	link    *Link
	payload []byte
}

// Ready reports whether Send may be called: the link has credit, and the session room for a frame.
func (l *Link) Ready() bool {
	return l.state == linkOpen && l.credit > 0 && l.session.remoteWindow > 0 && l.session.rest.link == nil
}

// Send sends a delivery, which the peer may settle until some time; the zero time sets no end. The tag of one that is
// settled already is empty, as with Service Bus. Send returns the delivery-id. The link must be Ready.
func (l *Link) Send(tag Tag, settled bool, until time.Time, payload []byte) uint32 {
	s := l.session
	s.sayDispositions() // some clients insist on the outcome of a request before its response
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
		s.unsettled[id] = sent{link: l, tag: tag, until: unixMilli(until)}
		l.pending++
		s.conn.unsettled++
	}
	if left := s.sayTransfer(t, payload); len(left) > 0 {
		s.rest = rest{link: l, payload: slices.Clone(left)}
	}
	return id
}

// sayRest goes on with a delivery that was cut off.
func (s *Session) sayRest() {
	l := s.rest.link
	if l == nil {
		return
	}
	t := &s.conn.transfer
	*t = wire.Transfer{Handle: l.handle}
	left := s.sayTransfer(t, s.rest.payload)
	if s.rest.payload = left; len(left) == 0 {
		s.rest = rest{}
	}
}

// sayTransfer appends frames until payload or the peer's window is used up, and returns what is left of payload.
func (s *Session) sayTransfer(t *wire.Transfer, payload []byte) []byte {
	c := s.conn
	for s.remoteWindow > 0 {
		var err error
		if c.out, payload, err = wire.AppendTransfer(c.out, s.channel, t, payload, c.frameMax); err != nil {
			c.fail(err)
			return nil
		}
		s.remoteWindow--
		s.nextOutgoing++
		if len(payload) == 0 {
			return nil
		}
		*t = wire.Transfer{Handle: t.Handle}
	}
	return payload
}

// Drained answers the peer's wish to drain: the credit left is used up.
func (l *Link) Drained() {
	if l.state != linkOpen || !l.draining {
		return
	}
	l.draining = false
	l.deliveryCount += l.credit
	l.credit = 0
	l.session.sayFlow(l, true)
}

// flowed takes the link's part of a flow, §2.6.7.
func (l *Link) flowed(f *wire.Flow) {
	if l.state > linkOpen {
		return
	}
	if l.attach.Role == wire.RoleSender {
		// A sender may use up credit without sending.
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
		return // Accept finds the credit
	}
	if f.Echo && !f.Drain { // a drain is answered by Drained
		l.session.sayFlow(l, false)
	}
	l.session.conn.handler.Flowed(l)
}
