package engine

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// outgoingWindow is announced to the peer. It does not limit us; credit and the peer's window do.
const outgoingWindow = 1<<31 - 1

// Session is one AMQP session. The numbers of its transfers and deliveries are serial numbers,
// which wrap around (AMQP 1.0 §2.8.10).
type Session struct {
	Data any // belongs to the handler

	conn    *Conn
	channel uint16
	ended   bool // our end is sent; waiting for the peer's
	dirty   bool // is in conn.dirty

	nextIncoming uint32 // number of the peer's next transfer frame
	window       uint32 // how many more frames we accept

	nextOutgoing  uint32 // number of our next transfer frame; the first was 0
	nextDelivery  uint32
	remoteWindow  uint32 // how many more frames the peer accepts
	peerHandleMax uint32
	unsettled     map[uint32]sent // by delivery-id
	lapsed        []span          // deliveries that Conn.Lapse has removed
	rest          rest            // unsent part of a delivery that was cut off
	run           run             // outcomes for the next disposition
	links         map[uint32]*Link
	dirtyLinks    []*Link // links that may get new credit
	held          []*Link // links whose detach by the peer the handler will answer
}

type sent struct {
	link     *Link
	tag      Tag
	until    int64 // the peer may settle the delivery until this Unix time in ms; 0: for ever
	disposed bool  // the peer has given an outcome that the handler has not answered
}

// beginSession begins a session, AMQP 1.0 §2.5.1.
func (c *Conn) beginSession(channel uint16, b *wire.Begin) {
	limit := min(c.channelMax(), c.peer.ChannelMax.Or(wire.DefaultChannelMax))
	switch {
	case channel > limit:
		c.fail(fault(wire.CondFramingError, fmt.Sprintf("channel %d exceeds the maximum of %d", channel, limit)))
		return
	case c.sessions[channel] != nil:
		c.fail(fault(wire.CondNotAllowed, fmt.Sprintf("channel %d already has a session", channel)))
		return
	case len(c.sessions) >= c.bounds.Sessions:
		c.fail(fault(wire.CondResourceLimitExceeded, fmt.Sprintf("The connection has %d sessions, which is the limit.", c.bounds.Sessions)))
		return
	case b.RemoteChannel.Set:
		c.fail(fault(wire.CondNotAllowed, "the peer answered a begin that the gateway did not send"))
		return
	}
	if c.opts.Begins != nil {
		if err := c.opts.Begins(); err != nil {
			c.fail(err)
			return
		}
	}
	s := &Session{
		conn: c, channel: channel,
		nextIncoming: b.NextOutgoingID, window: c.opts.IncomingWindow,
		remoteWindow: b.IncomingWindow, peerHandleMax: b.HandleMax.Or(wire.DefaultHandleMax),
		unsettled: make(map[uint32]sent), links: make(map[uint32]*Link),
	}
	c.sessions[channel] = s
	delete(c.ended, channel)
	c.emit(channel, &wire.Begin{
		RemoteChannel:  value.Some(channel),
		NextOutgoingID: s.nextOutgoing,
		IncomingWindow: s.window,
		OutgoingWindow: outgoingWindow,
		HandleMax:      value.Some(s.handleMax()),
	})
}

func (s *Session) handleMax() uint32 { return uint32(s.conn.opts.MaxHandles - 1) }

func (s *Session) perform(p wire.Performative, payload []byte, left int) {
	if end, ok := p.(*wire.End); ok {
		s.end(end)
		return
	}
	if s.ended { // §2.5.5: discard everything until the peer's end
		s.conn.discard(p)
		return
	}
	switch p := p.(type) {
	case *wire.Transfer:
		s.receive(p, payload, left)
	case *wire.Disposition:
		s.disposition(p)
	case *wire.Flow:
		s.flowed(p)
	case *wire.Attach:
		s.attach(p)
	case *wire.Detach:
		s.detach(p)
	default:
		s.conn.fail(fault(wire.CondNotAllowed, "the peer sent a SASL performative in an AMQP frame"))
	}
}

func (s *Session) end(*wire.End) {
	delete(s.conn.sessions, s.channel)
	s.conn.ended[s.channel] = struct{}{}
	s.abandon()
	if !s.ended {
		s.ended = true
		s.conn.emit(s.channel, &wire.End{})
	}
}

func (s *Session) End(err *wire.Error) {
	if s.ended || s.conn.state != stateOpened {
		return
	}
	s.sayDispositions()
	s.ended = true
	s.abandon()
	s.conn.emit(s.channel, &wire.End{Error: err})
}

func (s *Session) abandon() {
	for handle, l := range s.links {
		delete(s.links, handle)
		s.conn.links--
		if l.drop() {
			s.conn.handler.Detached(l)
		}
	}
	s.conn.unsettled -= len(s.unsettled)
	clear(s.unsettled)
	s.lapsed = nil
	s.rest = rest{}
	s.run = run{}
}

// touch makes the next Flush include the session.
func (s *Session) touch() {
	if !s.dirty {
		s.dirty = true
		s.conn.dirty = append(s.conn.dirty, s)
	}
}

func (s *Session) flush() {
	s.sayDispositions()
	for _, l := range s.dirtyLinks {
		l.dirty = false
		l.grant()
	}
	s.dirtyLinks = s.dirtyLinks[:0]
	if s.window <= s.conn.opts.IncomingWindow/2 {
		s.sayFlow(nil, false)
	}
}

// sayFlow sends a flow about the session and, unless l is nil, about link l.
func (s *Session) sayFlow(l *Link, drain bool) {
	s.window = s.conn.opts.IncomingWindow
	f := &s.conn.flow
	*f = wire.Flow{
		NextIncomingID: value.Some(s.nextIncoming),
		IncomingWindow: s.window,
		NextOutgoingID: s.nextOutgoing,
		OutgoingWindow: outgoingWindow,
	}
	if l != nil {
		f.Handle = value.Some(l.handle)
		f.DeliveryCount = value.Some(l.deliveryCount)
		f.LinkCredit = value.Some(l.credit)
		f.Drain = drain
	}
	s.conn.emit(s.channel, f)
}

// flowed carries out a flow of the peer, §2.5.6 and §2.6.7. If the flow's link has ended, only what
// the flow says about the session counts.
func (s *Session) flowed(f *wire.Flow) {
	s.remoteWindow = left(f.IncomingWindow, s.nextOutgoing-f.NextIncomingID.Or(0))
	s.nextIncoming = f.NextOutgoingID
	if l := s.links[f.Handle.V]; f.Handle.Set && l != nil {
		l.flowed(f)
	} else if f.Echo {
		s.sayFlow(nil, false)
	}
	if len(s.conn.resting) > 0 && !s.ended {
		s.conn.sayRests()
	}
}

// left returns what remains of a window or credit. used is how many frames or deliveries were sent
// that the peer had not seen when it granted. If the peer claims to have seen more than were sent,
// used wraps around, and left returns 0.
func left(granted, used uint32) uint32 {
	if used > granted {
		return 0
	}
	return granted - used
}
