package engine

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
)

// partial is a message of which not every frame has arrived.
type partial struct {
	active  bool
	discard bool // too large: only its size counts
	size    int64
	Message
}

// A message that is too large is read to its end and then rejected, because a detached link leaves some clients waiting
// for their time-out. One that is far too large is not worth it.
const (
	farTooLargeFactor = 4
	farTooLargeBytes  = 1 << 20
)

// receive takes a transfer frame, AMQP 1.0 §2.6.12.
func (s *Session) receive(t *wire.Transfer, payload []byte) {
	if s.window == 0 {
		s.End(fault(wire.CondWindowViolation, "a transfer beyond the session window"))
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
		s.End(fault(wire.CondUnattachedHandle, fmt.Sprintf("a transfer on handle %d, which is not attached", t.Handle)))
	case l.state == linkDetached:
	case l.attach.Role == wire.RoleReceiver:
		l.fail(fault(wire.CondNotAllowed, "A transfer on a link to receive from."))
	case !l.partial.active && !l.start(t):
	default:
		l.more(t, payload)
	}
}

// start begins a message with its first frame, and reports whether the link survived it.
func (l *Link) start(t *wire.Transfer) bool {
	switch {
	case !t.DeliveryID.Set || t.DeliveryTag == nil:
		l.fail(fault(wire.CondInvalidField, "The first transfer of a delivery has no delivery-id or no delivery-tag."))
		return false
	case l.credit == 0:
		l.fail(fault(wire.CondTransferLimitExceeded, "A transfer without credit."))
		return false
	case t.Resume:
		l.fail(fault(wire.CondNotImplemented, "Deliveries cannot be resumed."))
		return false
	}
	l.credit--
	l.deliveryCount++
	l.owed++
	l.partial = partial{active: true, Message: Message{ID: t.DeliveryID.V, Format: t.MessageFormat.Or(wire.FormatMessage)}}
	return true
}

// more takes one frame of the message under way.
func (l *Link) more(t *wire.Transfer, payload []byte) {
	p, c := &l.partial, l.session.conn
	if t.DeliveryID.Set && t.DeliveryID.V != p.ID {
		l.fail(fault(wire.CondInvalidField, "A delivery begins before the one before it has ended."))
		return
	}
	if t.Aborted { // §2.7.5: as if settled; nothing is said
		l.dropPartial()
		l.Replenish(1)
		return
	}
	p.Settled = p.Settled || t.Settled.Or(false)
	if t.State != nil {
		p.State = t.State
	}
	p.size += int64(len(payload))
	if l.maxSize > 0 && uint64(p.size) > l.maxSize && !l.discardable() {
		return
	}
	if p.discard {
		if !t.More {
			l.reject()
		}
		return
	}
	if t.More {
		if c.partial+int64(len(payload)) > c.bounds.Partial {
			l.fail(fault(wire.CondResourceLimitExceeded, "Too many large messages at once on this connection."))
			return
		}
		c.partial += int64(len(payload))
		p.Payload = append(p.Payload, payload...)
		return
	}
	c.partial -= int64(len(p.Payload))
	m := p.Message
	m.Payload = append(m.Payload, payload...)
	l.partial = partial{}
	c.handler.Received(l, m)
}

// discardable deals with a message that is too large: it will be rejected, unless it is far too large.
func (l *Link) discardable() bool {
	p := &l.partial
	over := uint64(p.size) - l.maxSize
	if over > farTooLargeBytes && uint64(p.size) > farTooLargeFactor*l.maxSize {
		l.fail(l.session.conn.handler.TooLarge(l, p.size))
		return false
	}
	if !p.discard {
		l.session.conn.partial -= int64(len(p.Payload))
		p.discard, p.Payload = true, nil
	}
	return true
}

// reject ends a message that was too large.
func (l *Link) reject() {
	p := l.partial
	l.partial = partial{}
	why := l.session.conn.handler.TooLarge(l, p.size)
	if !p.Settled {
		l.Settle(p.ID, wire.Rejected{Error: why})
	}
	l.Replenish(1)
}

func (l *Link) dropPartial() {
	l.session.conn.partial -= int64(len(l.partial.Payload))
	l.partial = partial{}
}

// Settle tells the peer the outcome of message id, and settles it.
func (l *Link) Settle(id uint32, state wire.DeliveryState) {
	if l.state == linkOpen {
		l.session.say(wire.RoleReceiver, id, true, state)
	}
}

// Replenish gives back the credit of n messages that were received.
func (l *Link) Replenish(n int) {
	l.owed -= min(uint32(n), l.owed)
	if !l.dirty && l.state == linkOpen {
		l.dirty = true
		l.session.dirtyLinks = append(l.session.dirtyLinks, l)
		l.session.touch()
	}
}

// grant gives the peer credit when it is worth a flow: when it has none, or a quarter of its allowance.
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
