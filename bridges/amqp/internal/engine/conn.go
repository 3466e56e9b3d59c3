package engine

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

type connState uint8

const (
	stateHeader     connState = iota // waiting for the first protocol header
	stateInit                        // waiting for a SASL init
	stateAuth                        // waiting for the handler to call Authenticated
	stateAMQPHeader                  // waiting for the protocol header after SASL
	stateOpen                        // waiting for an open
	stateOpened
	stateClosing // our close is sent; waiting for the peer's
	stateDone
)

// maxHandshakeFrame bounds, in bytes, the frames up to and including the open. AMQP 1.0 §2.4.1
// allows 512, but some clients send larger ones.
const maxHandshakeFrame = 8 << 10

// minHeartbeat is the shortest interval at which a peer can demand heartbeats.
const minHeartbeat = 50 * time.Millisecond

type Conn struct {
	opts    Options
	handler Handler
	state   connState
	err     *wire.Error // the error with which either side has closed

	dec wire.Decoder
	output
	scratch

	peer      *wire.Open
	frameMax  uint32 // largest frame that the peer accepts
	heartbeat time.Duration
	heard     time.Time // when bytes last arrived from the peer
	spoken    time.Time // when the caller last took bytes for the peer

	sessions map[uint16]*Session
	ended    map[uint16]struct{} // channels whose session has ended and that no other session uses yet
	bounds   Bounds
	links    int // links in all sessions; a refused link counts until the peer detaches it
	attached int // number of links that were ever attached
	incomplete

	unsettled int // deliveries that we have sent, on all sessions, and that are not settled
}

type output struct {
	out      []byte
	refs     []reference // bodies that are sent from their own memory, between the bytes of out
	referred int         // bytes in refs
	dirty    []*Session  // sessions for which the next Flush may have to send something
	resting  []*Session  // sessions with a delivery that is sent in part
}

type scratch struct {
	transfer wire.Transfer
	tag      Tag
	dispose  wire.Disposition
	flow     wire.Flow
}

type incomplete struct {
	partials int   // number of the messages that have arrived in part
	reserved int64 // bytes that the handler has reserved for the incomplete messages
	stalled  bool  // the handler has no memory for the next frame
	begun    begun // a transfer frame that has arrived in part
}

func New(o Options, h Handler, now time.Time) *Conn {
	return &Conn{
		opts: o, handler: h,
		frameMax: wire.MinMaxFrameSize, heard: now, spoken: now,
		sessions: make(map[uint16]*Session), ended: make(map[uint16]struct{}),
		bounds: Bounds{o.MaxSessions, o.MaxLinks},
	}
}

type Bounds struct {
	Sessions int
	Links    int
}

func (c *Conn) Bound(b Bounds) { c.bounds = b }

// Receive returns how many bytes of b it has used; the next b must begin with the rest. It uses all
// whole frames, and as much of the next as it can, unless it waits for Authenticated or for memory.
func (c *Conn) Receive(b []byte, now time.Time) (n int) {
	c.heard = now
	c.stalled = false
	for c.state != stateDone && c.state != stateAuth {
		k := c.step(b[n:])
		if k == 0 {
			return n
		}
		n += k
	}
	return n
}

// step takes one protocol header, frame, or part of a transfer. It returns 0 if b has none.
func (c *Conn) step(b []byte) int {
	if c.begun.left > 0 {
		return c.goOn(b)
	}
	if c.state == stateHeader || c.state == stateAMQPHeader {
		if len(b) < wire.ProtocolHeaderSize {
			return 0
		}
		c.protocol(b)
		return wire.ProtocolHeaderSize
	}
	limit := c.opts.MaxFrameSize
	if c.state < stateOpened {
		limit = min(limit, maxHandshakeFrame)
	}
	f, n, err := wire.CutFrame(b, limit)
	if err != nil {
		c.fail(err)
		return len(b)
	}
	if n == 0 {
		return c.begin(b)
	}
	c.frame(f, 0)
	if c.stalled {
		return 0
	}
	return n
}

// protocol reacts to a protocol header, AMQP 1.0 §2.2 and §5.3.1.
func (c *Conn) protocol(b []byte) {
	p, err := wire.ParseProtocolHeader(b)
	switch {
	case err == nil && p == wire.ProtocolAMQP:
		c.out = wire.AppendProtocolHeader(c.out, wire.ProtocolAMQP)
		c.state = stateOpen
	case err == nil && p == wire.ProtocolSASL && c.state == stateHeader:
		c.out = wire.AppendProtocolHeader(c.out, wire.ProtocolSASL)
		c.emit(0, &wire.SASLMechanisms{Mechanisms: c.opts.Mechanisms})
		c.state = stateInit
	default:
		// §2.2: answer with a supported header, then end the connection.
		supported := wire.ProtocolSASL
		if c.state == stateAMQPHeader {
			supported = wire.ProtocolAMQP
		}
		c.out = wire.AppendProtocolHeader(c.out, supported)
		c.finish(fault(wire.CondFramingError, "the peer asked for a protocol that is not supported"))
	}
}

// frame carries out one frame. left is the number of payload bytes that have not arrived.
func (c *Conn) frame(f wire.Frame, left int) {
	sasl := c.state == stateInit
	if sasl != (f.Type == wire.FrameSASL) {
		c.fail(fault(wire.CondFramingError, "the peer sent a frame whose type is not allowed at this stage of the connection"))
		return
	}
	if len(f.Body) == 0 {
		if sasl {
			c.finish(fault(wire.CondFramingError, "the peer sent a SASL frame without a body"))
		}
		return
	}
	p, payload, err := c.dec.Decode(f.Body)
	if err != nil {
		c.fail(err)
		return
	}
	switch c.state {
	case stateInit:
		c.init(p)
	case stateOpen:
		c.open(p)
	case stateOpened:
		c.perform(f.Channel, p, payload, left)
	case stateClosing: // §2.4.6: ignore everything but the peer's close
		if _, ok := p.(*wire.Close); ok {
			c.state = stateDone
		}
	}
}

func (c *Conn) init(p wire.Performative) {
	init, ok := p.(*wire.SASLInit)
	if !ok {
		c.finish(fault(wire.CondNotAllowed, "the first SASL frame is not a sasl-init"))
		return
	}
	c.state = stateAuth
	c.handler.Authenticate(init)
}

// Authenticated answers Handler.Authenticate. Any code but wire.SASLOK ends the connection.
func (c *Conn) Authenticated(code wire.SASLCode) {
	if c.state != stateAuth {
		return
	}
	c.emit(0, &wire.SASLOutcome{Code: code})
	if code == wire.SASLOK {
		c.state = stateAMQPHeader
		return
	}
	c.finish(fault(wire.CondUnauthorizedAccess, "the SASL exchange failed"))
}

func (c *Conn) open(p wire.Performative) {
	o, ok := p.(*wire.Open)
	if !ok {
		c.fail(fault(wire.CondNotAllowed, "the first frame of the connection is not an open"))
		return
	}
	c.peer = o
	c.frameMax = min(o.MaxFrameSize.Or(wire.DefaultMaxFrameSize), c.opts.MaxFrameSize)
	if ms := o.IdleTimeOut.Or(0); ms > 0 {
		c.heartbeat = max(time.Duration(ms)*time.Millisecond*3/4, minHeartbeat)
	}
	c.sayOpen()
	c.state = stateOpened
	c.handler.Opened(o)
}

func (c *Conn) sayOpen() {
	c.emit(0, &wire.Open{
		ContainerID:  c.opts.ContainerID,
		MaxFrameSize: value.Some(c.opts.MaxFrameSize),
		ChannelMax:   value.Some(c.channelMax()),
		IdleTimeOut:  value.Some(uint32(c.opts.IdleTimeout.Milliseconds())),
		Properties:   c.opts.Properties,
	})
}

func (c *Conn) channelMax() uint16 { return uint16(c.opts.MaxSessions - 1) }

func (c *Conn) perform(channel uint16, p wire.Performative, payload []byte, left int) {
	switch p := p.(type) {
	case *wire.Begin:
		c.beginSession(channel, p)
		return
	case *wire.Close:
		c.err = p.Error
		c.state = stateClosing
		c.abandon()
		c.emit(0, &wire.Close{})
		c.state = stateDone
		return
	case *wire.Open:
		c.fail(fault(wire.CondNotAllowed, "the peer sent a second open"))
		return
	}
	s := c.sessions[channel]
	_, ended := c.ended[channel]
	_, attach := p.(*wire.Attach)
	switch {
	case s != nil:
		s.perform(p, payload, left)
	case ended && !attach: // .NET's client sometimes sends a detach after the end of the session
		c.discard(p)
	default:
		c.fail(fault(wire.CondNotAllowed, fmt.Sprintf("channel %d has no session", channel)))
	}
}

// discard drops a performative of a session that has ended, and tells the handler if a transaction
// therefore lacks an operation.
func (c *Conn) discard(p wire.Performative) {
	switch p := p.(type) {
	case *wire.Transfer:
		c.missed(p.State)
	case *wire.Disposition:
		c.missed(p.State)
	}
}

// Close ends all links. err may be nil.
func (c *Conn) Close(err *wire.Error) {
	switch c.state {
	case stateClosing, stateDone:
		return
	case stateOpen:
		c.sayOpen() // §2.4.1: an open precedes every close
	case stateOpened:
		c.Flush()
		c.state = stateClosing
		c.abandon()
	default:
		c.finish(err)
		return
	}
	c.err = err
	c.state = stateClosing
	c.emit(0, &wire.Close{Error: err})
}

// fail closes the connection; an err that is not an *wire.Error becomes an internal error.
func (c *Conn) fail(err error) {
	if c.state >= stateClosing {
		return
	}
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		e = fault(wire.CondInternalError, "")
	}
	c.Close(c.handler.Faulted(e))
}

// finish ends the connection without sending a close.
func (c *Conn) finish(err *wire.Error) {
	c.err = err
	c.state = stateDone
	c.abandon()
}

func (c *Conn) abandon() {
	for channel, s := range c.sessions {
		delete(c.sessions, channel)
		s.abandon()
	}
}

func (c *Conn) Abandon() {
	if c.state != stateDone {
		c.state = stateDone
		c.abandon()
	}
}

// Opened reports whether both sides have sent an open frame and neither has closed.
func (c *Conn) Opened() bool { return c.state == stateOpened }

// Closing reports whether the engine has sent a close and waits for the peer's close.
func (c *Conn) Closing() bool { return c.state == stateClosing }

// Waiting reports whether Receive waits for Authenticated, or for memory from Handler.Reserve.
func (c *Conn) Waiting() bool { return c.state == stateAuth || c.stalled }

// Reserved returns the bytes that Handler.Reserve has granted for incomplete messages.
func (c *Conn) Reserved() int64 { return c.reserved }

// Done reports whether to send the remaining output and close the transport.
func (c *Conn) Done() bool { return c.state == stateDone }

// Err returns the error with which either side closed the connection, or nil.
func (c *Conn) Err() *wire.Error { return c.err }

// Tick does what is due at now. next is when to call it again, or zero for never.
func (c *Conn) Tick(now time.Time) (next time.Time) {
	if c.state != stateOpened {
		return time.Time{}
	}
	next = c.heard.Add(2 * c.opts.IdleTimeout)
	if !now.Before(next) {
		c.fail(fault(wire.CondConnectionForced, fmt.Sprintf(
			"The connection was inactive for more than the allowed %d milliseconds and is closed by container '%s'.",
			(2*c.opts.IdleTimeout).Milliseconds(), c.opts.ContainerID)))
		return time.Time{}
	}
	if due := c.overdue(now); !due.IsZero() && due.Before(next) {
		next = due
	}
	if c.heartbeat == 0 {
		return next
	}
	beat := c.spoken.Add(c.heartbeat)
	if leeway := min(c.opts.Leeway, c.heartbeat/4); !now.Before(beat.Add(-leeway)) {
		if c.Buffered() == 0 {
			c.out = wire.AppendHeartbeat(c.out)
		}
		beat = now.Add(c.heartbeat)
	}
	if beat.Before(next) {
		next = beat
	}
	return next
}

// Heard restarts the idle time-out: while the caller does not read, silence is not the peer's
// fault.
func (c *Conn) Heard(now time.Time) {
	c.heard = now
	if c.partials == 0 {
		return
	}
	for l := range c.Links() {
		l.partial.pace.Paused(now)
	}
}

// Flush encodes pending dispositions, credit and windows, and the rest of cut-off deliveries.
func (c *Conn) Flush() {
	if len(c.resting) > 0 {
		c.sayRests()
	}
	for _, s := range c.dirty {
		s.dirty = false
		if c.state == stateOpened && !s.ended {
			s.flush()
		}
	}
	c.dirty = c.dirty[:0]
}

// Links returns the attached links. The caller may detach them during the iteration.
func (c *Conn) Links() iter.Seq[*Link] {
	return func(yield func(*Link) bool) {
		for _, s := range c.sessions {
			for _, l := range s.links {
				if l.state == linkOpen && !yield(l) {
					return
				}
			}
		}
	}
}

func (c *Conn) Sessions() int { return len(c.sessions) }

// Attachments returns the number of links, including those that are being attached or detached.
func (c *Conn) Attachments() int { return c.links }

func (c *Conn) Unsettled() int { return c.unsettled }

// reference holds bytes that are sent after Conn.out[:at] and before Conn.out[at:].
type reference struct {
	at    int
	bytes []byte
}

func (c *Conn) Buffered() int { return len(c.out) + c.referred }

// Take appends the bytes for the peer to parts, in order. Large bodies are not copied; all other
// bytes are in out, which then belongs to the caller. The engine reuses the memory of spare.
func (c *Conn) Take(parts [][]byte, spare []byte, now time.Time) (whole [][]byte, out []byte) {
	out, at := c.out, 0
	for _, r := range c.refs {
		if r.at > at {
			parts = append(parts, out[at:r.at])
		}
		parts, at = append(parts, r.bytes), r.at
	}
	if len(out) > at {
		parts = append(parts, out[at:])
	}
	clear(c.refs)
	c.out, c.refs, c.referred = spare[:0], c.refs[:0], 0
	c.spoken = now
	return parts, out
}

// emit appends a frame to the output. It ends the connection if the frame exceeds the peer's limit.
func (c *Conn) emit(channel uint16, p wire.Performative) {
	start := len(c.out)
	var err error
	if c.out, err = wire.AppendFrame(c.out, channel, p, nil); err != nil {
		c.finish(fault(wire.CondInternalError, err.Error()))
		return
	}
	if c.state == stateOpened && len(c.out)-start > int(c.frameMax) {
		c.out = c.out[:start]
		c.fail(fault(wire.CondFrameSizeTooSmall, ""))
	}
}
