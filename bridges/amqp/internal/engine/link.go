package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

type linkState uint8

const (
	linkAsked    linkState = iota // waiting for the handler to call Accept or Refuse
	linkOpen                      // attached on both sides
	linkDetached                  // our detach is sent; waiting for the peer's
	linkGone
)

// Link is one link. Its role is the peer's: on a link with wire.RoleSender the peer sends.
type Link struct {
	Data   any // belongs to the handler
	Number int // counts the links of the connection from 1; never changed

	session *Session
	attach  *wire.Attach
	handle  uint32
	state   linkState
	refused bool
	answer  answer
	dirty   bool // is in session.dirtyLinks

	deliveryCount uint32
	credit        uint32 // credit that the sending side (we or the peer) has left

	// If the peer sends:
	maxSize   uint64 // largest message in bytes
	allowance uint32 // upper bound of credit plus owed
	owed      uint32 // messages for which the handler has not called Replenish yet
	partial   partial
	granted   int64 // bytes that the handler has reserved for the next message, of which nothing is taken yet
	denied    bool  // the handler has refused these bytes

	// If we send:
	draining bool
	pending  int // deliveries that the peer has not settled
}

type answer uint8

const (
	answered answer = iota // the answer is sent, or the peer has not detached
	answerDue
	answerHeld // the answer waits for the handler to call Answer
)

// Attach returns the peer's attach, which must not be changed.
func (l *Link) Attach() *wire.Attach { return l.attach }

func (l *Link) Session() *Session { return l.session }

func (l *Link) Refused() bool { return l.refused }

func (l *Link) Credit() uint32 { return l.credit }

// Draining reports whether the peer has requested a drain that Drained has not answered.
func (l *Link) Draining() bool { return l.draining }

func (l *Link) Unsettled() int { return l.pending }

func (l *Link) Open() bool { return l.state == linkOpen }

// attach carries out an attach of the peer, AMQP 1.0 §2.6.3.
func (s *Session) attach(a *wire.Attach) {
	c := s.conn
	switch {
	case a.Handle > s.handleMax():
		c.fail(fault(wire.CondFramingError, fmt.Sprintf("handle %d exceeds the maximum of %d", a.Handle, s.handleMax())))
		return
	case s.links[a.Handle] != nil:
		s.End(fault(wire.CondHandleInUse, fmt.Sprintf("handle %d is in use", a.Handle)))
		return
	case a.Handle > s.peerHandleMax:
		s.End(fault(wire.CondNotAllowed, fmt.Sprintf("handle %d exceeds the handle-max of the peer's own begin", a.Handle)))
		return
	case c.links >= 2*c.bounds.Links: // the peer does not detach refused links
		c.fail(fault(wire.CondResourceLimitExceeded, fmt.Sprintf("the peer attached more than %d links", c.bounds.Links)))
		return
	}
	for _, l := range s.held {
		if l.handle == a.Handle { // the peer uses the handle again before it got the answer to its detach: a later answer would seem to refer to the new link
			l.Answer()
			break
		}
	}
	namesake := s.named(a.Name, a.Role)
	c.attached++
	l := &Link{Number: c.attached, session: s, attach: a, handle: a.Handle, deliveryCount: a.InitialDeliveryCount.Or(0)}
	if a.Role == wire.RoleReceiver {
		l.deliveryCount = 0
	}
	s.links[a.Handle] = l
	c.links++
	switch {
	case namesake:
		l.Refuse(fault(wire.CondIllegalState, fmt.Sprintf("A link with the name '%.80s' is already attached to the session: use another name.", a.Name)))
	case c.links > c.bounds.Links:
		l.Refuse(fault(wire.CondResourceLimitExceeded, fmt.Sprintf("The connection has %d links, which is the limit: detach some.", c.bounds.Links)))
	default:
		c.handler.Attached(l)
	}
}

func (s *Session) named(name string, role wire.Role) bool {
	for _, l := range s.links {
		if l.attach.Name == name && l.attach.Role == role && l.state <= linkOpen {
			return true
		}
	}
	return false
}

// Terms are our values in the answer to an attach.
type Terms struct {
	MaxMessageSize uint64    // bytes
	Properties     value.Map // must not be nil, because some clients require the map
	Credit         uint32    // messages that the peer may send before the first Replenish

	Filter           value.Map      // filter of the source
	DistributionMode value.Symbol   // distribution mode of the source
	Capabilities     []value.Symbol // capabilities of the coordinator
}

// Accept attaches the link. It returns false if the peer has detached it meanwhile.
func (l *Link) Accept(t Terms) bool {
	if l.state != linkAsked {
		return false
	}
	l.state = linkOpen
	l.maxSize = t.MaxMessageSize
	l.allowance = t.Credit
	reply := l.reply()
	reply.Source, reply.Target = l.source(), l.target()
	if reply.Source != nil {
		reply.Source.Filter, reply.Source.DistributionMode = t.Filter, t.DistributionMode
	}
	if l.attach.Coordinator != nil {
		reply.Coordinator = &wire.Coordinator{Capabilities: t.Capabilities}
	}
	reply.MaxMessageSize = value.Some(t.MaxMessageSize)
	reply.Properties = t.Properties
	l.session.conn.emit(l.session.channel, reply)
	l.grant()
	return true
}

const keptName = 64

// Refuse refuses the link with err, AMQP 1.0 §2.6.3: it answers the attach without source or
// target, and then detaches.
func (l *Link) Refuse(err *wire.Error) {
	if l.state != linkAsked {
		return
	}
	l.sayRefused()
	l.state, l.refused = linkDetached, true
	// Keep little, because the peer may never answer the detach.
	l.attach = &wire.Attach{Name: strings.Clone(l.attach.Name[:min(len(l.attach.Name), keptName)]), Role: l.attach.Role}
	l.session.conn.emit(l.session.channel, &wire.Detach{Handle: l.handle, Closed: true, Error: err})
}

func (l *Link) sayRefused() {
	reply := l.reply()
	if l.attach.Role == wire.RoleSender {
		reply.Source = l.source()
	} else {
		reply.Target = l.target()
	}
	reply.Properties = value.Map{}
	l.session.conn.emit(l.session.channel, reply)
}

// source returns the peer's source without what the engine does not support.
func (l *Link) source() *wire.Source {
	asked := l.attach.Source
	if asked == nil {
		return nil
	}
	s := &wire.Source{Address: asked.Address}
	for _, outcome := range asked.Outcomes {
		switch outcome {
		case "amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list":
			s.Outcomes = append(s.Outcomes, outcome)
		}
	}
	return s
}

func (l *Link) target() *wire.Target {
	if l.attach.Target == nil {
		return nil
	}
	return &wire.Target{Address: l.attach.Target.Address}
}

// reply returns an attach without source and target. It repeats the peer's settle modes, because
// clients compare them.
func (l *Link) reply() *wire.Attach {
	a := &wire.Attach{
		Name: l.attach.Name, Handle: l.handle, Role: !l.attach.Role,
		SndSettleMode: l.attach.SndSettleMode, RcvSettleMode: l.attach.RcvSettleMode,
	}
	if a.Role == wire.RoleSender {
		a.InitialDeliveryCount = value.Some(uint32(0))
	}
	return a
}

func (l *Link) Detach(err *wire.Error) {
	if l.state == linkAsked {
		l.Refuse(err)
		return
	}
	if l.state != linkOpen || l.session.conn.state != stateOpened {
		return
	}
	l.session.sayDispositions()
	l.drop()
	l.state = linkDetached
	l.session.conn.emit(l.session.channel, &wire.Detach{Handle: l.handle, Closed: true, Error: err})
}

func (l *Link) fail(err *wire.Error) {
	l.Detach(err)
	l.session.conn.handler.Detached(l)
}

// detach carries out a detach of the peer, §2.6.6. Links are never suspended, so every detach
// closes. A detach for a link that has ended is late, and ignored.
func (s *Session) detach(d *wire.Detach) {
	l := s.links[d.Handle]
	if l == nil {
		return
	}
	s.sayDispositions()
	delete(s.links, d.Handle)
	s.conn.links--
	if l.state != linkDetached {
		l.answer = answerDue
	}
	if l.state == linkAsked {
		l.sayRefused()
	}
	if l.drop() {
		s.conn.handler.Detached(l)
	}
	if l.answer == answerDue {
		l.Answer()
	}
}

// AnswerLater delays the answer to the peer's detach until Answer is called, unless the session has
// delayed as many answers as it may have links. Only Handler.Detached may call AnswerLater.
func (l *Link) AnswerLater() {
	if l.answer == answerDue && len(l.session.held) < l.session.conn.bounds.Links {
		l.answer = answerHeld
		l.session.held = append(l.session.held, l)
	}
}

// Answer sends the answer to the peer's detach, unless it has been sent or the session has ended.
func (l *Link) Answer() {
	s := l.session
	if l.answer != answered && !s.ended && s.conn.state == stateOpened {
		s.conn.emit(s.channel, &wire.Detach{Handle: l.handle, Closed: true})
	}
	l.answer = answered
	s.held = slices.DeleteFunc(s.held, func(other *Link) bool { return other == l })
}

func (l *Link) forget() {
	l.pending--
	l.session.conn.unsettled--
}

// drop frees what l holds, and reports whether the link was still in use.
func (l *Link) drop() bool {
	alive := l.state <= linkOpen
	l.state = linkGone
	if l.partial.active {
		l.session.conn.missed(l.partial.State)
	}
	l.dropPartial()
	if l.session.rest.link == l {
		l.session.rest = rest{}
	}
	l.session.lapsed = slices.DeleteFunc(l.session.lapsed, func(p span) bool { return p.link == l })
	if l.pending > 0 {
		for id, d := range l.session.unsettled {
			if d.link == l {
				delete(l.session.unsettled, id)
				l.forget()
			}
		}
	}
	return alive
}
