package amqp

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	// spliceFrame bounds, in bytes, the frames that a peer may send.
	spliceFrame = 64 << 10
	// spliceText bounds, in bytes, an error's text, because go-amqp keeps it in states and logs.
	spliceText = 1000
	// spliceRange bounds the range of a disposition, because the client loops over it.
	spliceRange = 1 << 16
	// spliceBeats bounds the empty frames that a peer may send in a second.
	spliceBeats = 100
	// spliceTag is the first byte, and spliceTagLength the length, of the delivery-tags of messages
	// that are already encoded. The client's own tags have 8 bytes.
	spliceTag       = 'x'
	spliceTagLength = 9
)

// spliceLimits bound the values in a peer's frames, except messages.
var spliceLimits = value.Limits{Depth: 8, Elements: 1024}

// Splice is a connection to a peer for go-amqp, whose decoder must not see a peer's bytes. The
// Splice decodes and checks the peer's frames, and encodes them again without fields that go-amqp,
// the client, does not need. So the client reads only well-formed frames with known fields and
// values of simple types.
//
// Messages pass unchanged. The client receives the encoded message as the contents of data
// sections. To send one, it sends a data section with the encoded message, and a tag from
// SpliceTag.
type Splice struct {
	net.Conn
	decoder   wire.Decoder
	hasHeader bool // the peer's protocol header has arrived
	granted   grants
	beat      time.Time // when an empty frame was last passed to the client
	beats     int       // empty frames of the peer since then
	refused   atomic.Bool

	in    []byte // bytes from the peer that are not checked yet
	ready []byte // bytes for the client, which has already read ready[:at]
	at    int

	out   []byte // an incomplete frame from the client
	frame []byte // frames for the peer
}

// NewSplice returns a Splice on c. One goroutine may read and one may write at the same time.
// memory, if not nil, counts large messages while they arrive; Splice.Close closes memory.
func NewSplice(c net.Conn, memory *fair.Share) *Splice {
	return &Splice{Conn: c, decoder: wire.Decoder{Limits: spliceLimits}, granted: grants{memory: memory}}
}

func (s *Splice) Close() error {
	s.granted.forget()
	return s.Conn.Close()
}

// Refused reports whether the connection ended because of what the peer sent.
func (s *Splice) Refused() bool { return s.refused.Load() }

// SpliceTag returns the n-th delivery-tag for messages that are already encoded.
func SpliceTag(n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, spliceTagLength), spliceTag), n)
}

// Read returns as many whole frames as fit.
func (s *Splice) Read(p []byte) (int, error) {
	for s.at == len(s.ready) {
		s.ready, s.at = s.ready[:0], 0
		if err := s.receive(); err != nil {
			s.refused.Store(true)
			return 0, err
		}
		if len(s.ready) > 0 {
			break
		}
		if err := s.fill(len(p)); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.ready[s.at:])
	s.at += n
	return n, nil
}

func (s *Splice) fill(n int) error {
	held := len(s.in)
	n = min(max(n, 4096), spliceFrame)
	s.in = append(s.in, make([]byte, n)...)
	got, err := s.Conn.Read(s.in[held:])
	s.in = s.in[:held+max(got, 0)]
	if got > 0 {
		return nil
	}
	return err
}

func (s *Splice) receive() error {
	rest := s.in
	for {
		if len(rest) >= wire.ProtocolHeaderSize && string(rest[:4]) == "AMQP" {
			if s.hasHeader {
				return &wire.Error{Condition: wire.CondFramingError, Description: "The peer sent a second protocol header."}
			}
			s.hasHeader = true
			s.ready = append(s.ready, rest[:wire.ProtocolHeaderSize]...)
			rest = rest[wire.ProtocolHeaderSize:]
			continue
		}
		if len(rest) < wire.ProtocolHeaderSize {
			break
		}
		f, n, err := wire.CutFrame(rest, spliceFrame)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := s.admit(f); err != nil {
			return err
		}
		rest = rest[n:]
	}
	s.in = s.in[:copy(s.in, rest)]
	return nil
}

func (s *Splice) admit(f wire.Frame) (err error) {
	if len(f.Body) == 0 {
		return s.heartbeat(time.Now())
	}
	p, payload, err := s.decoder.Decode(f.Body)
	if err != nil {
		return err
	}
	if err := s.granted.admit(f.Channel, p, len(payload)); err != nil {
		return err
	}
	switch p := p.(type) {
	case *wire.Transfer:
		p.State = nil
		if len(payload) > 0 {
			payload = wire.AppendDataSection(nil, payload)
		}
	case *wire.Flow:
		p.Properties = nil
		if p.Handle.Set && !p.LinkCredit.Set { // the client fails without the field
			p.LinkCredit = value.Some(uint32(0))
		}
	case *wire.Disposition:
		if p.Last.Set && p.Last.V-p.First > spliceRange {
			return &wire.Error{Condition: wire.CondInvalidField, Description: "The peer sent a disposition for more deliveries than the gateway tracks."}
		}
		p.State = plainState(p.State)
	case *wire.SASLOutcome: // a second header follows, for AMQP
		s.hasHeader = false
		simplify(p)
	default:
		simplify(p)
	}
	s.ready, err = wire.AppendFrame(s.ready, f.Channel, p, payload)
	return err
}

// heartbeat passes on one empty frame a second: go-amqp keeps all that arrive before another frame.
func (s *Splice) heartbeat(now time.Time) error {
	if now.Sub(s.beat) >= time.Second {
		s.beat, s.beats = now, 0
		s.ready = wire.AppendHeartbeat(s.ready)
	}
	if s.beats++; s.beats > spliceBeats {
		return &wire.Error{Condition: wire.CondFramingError, Description: "The peer sent too many empty frames in a second."}
	}
	return nil
}

// simplify removes the fields that may hold values of any type.
func simplify(p wire.Performative) {
	switch p := p.(type) {
	case *wire.Open:
		p.Properties, p.OfferedCapabilities, p.DesiredCapabilities = nil, nil, nil
		p.OutgoingLocales, p.IncomingLocales = nil, nil
	case *wire.Begin:
		p.Properties, p.OfferedCapabilities, p.DesiredCapabilities = nil, nil, nil
	case *wire.Attach:
		p.Properties, p.OfferedCapabilities, p.DesiredCapabilities = nil, nil, nil
		if p.Source != nil {
			p.Source = &wire.Source{Address: p.Source.Address, Filter: plainFilter(p.Source.Filter)}
		}
		if p.Target != nil {
			p.Target = &wire.Target{Address: p.Target.Address}
		}
	case *wire.Detach:
		p.Error = plainError(p.Error)
	case *wire.End:
		p.Error = plainError(p.Error)
	case *wire.Close:
		p.Error = plainError(p.Error)
	case *wire.SASLOutcome:
		p.AdditionalData = nil
	}
}

// plainFilter returns only the session filter, with the plain session id as its value.
func plainFilter(filters value.Map) value.Map {
	d, _ := filters.At(sessionFilter).(value.Described)
	id, ok := text(d.Value)
	if !ok {
		return nil
	}
	return value.Map{{Key: value.Symbol(sessionFilter), Value: value.Described{Descriptor: value.Symbol(sessionFilter), Value: id}}}
}

func plainError(e *wire.Error) *wire.Error {
	if e == nil {
		return nil
	}
	text := e.Description
	if len(text) > spliceText {
		text = strings.ToValidUTF8(text[:spliceText], "") + "…"
	}
	return &wire.Error{Condition: e.Condition, Description: text}
}

// plainState removes parts that may have any type. States of transactions become nil, because the
// client does not know them.
func plainState(s wire.DeliveryState) wire.DeliveryState {
	switch s := s.(type) {
	case wire.Rejected:
		return wire.Rejected{Error: plainError(s.Error)}
	case wire.Modified:
		s.MessageAnnotations = nil
		return s
	case wire.Accepted, wire.Released, wire.Received:
		return s
	default:
		return nil
	}
}

func (s *Splice) Write(p []byte) (int, error) {
	s.out = append(s.out, p...)
	rest := s.out
	s.frame = s.frame[:0]
	for len(rest) >= wire.ProtocolHeaderSize {
		n := wire.ProtocolHeaderSize
		if string(rest[:4]) != "AMQP" {
			n = int(binary.BigEndian.Uint32(rest)) // the client's frames are correct
		}
		if n > len(rest) {
			break
		}
		if err := s.emit(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	s.out = s.out[:copy(s.out, rest)]
	if len(s.frame) > 0 {
		if _, err := s.Conn.Write(s.frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// emit prepares a frame or protocol header of go-amqp for the peer. From the first frame of an
// already encoded message it removes the data section around the message.
func (s *Splice) emit(frame []byte) (err error) {
	f, p, payload := decodeOwn(frame)
	if t, ok := p.(*wire.Transfer); ok && len(t.DeliveryTag) == spliceTagLength && t.DeliveryTag[0] == spliceTag {
		s.frame, err = wire.AppendFrame(s.frame, f.Channel, t, unwrap(payload))
		return err
	}
	s.granted.note(f.Channel, p)
	s.frame = append(s.frame, frame...)
	return nil
}

// decodeOwn decodes the frames of go-amqp that matter for emit. For all others, p is nil.
func decodeOwn(frame []byte) (f wire.Frame, p wire.Performative, payload []byte) {
	f, n, err := wire.CutFrame(frame, uint32(len(frame)))
	if err != nil || n == 0 || f.Type != wire.FrameAMQP || len(f.Body) < 3 {
		return f, nil, nil
	}
	switch wire.Descriptor(f.Body[2]) {
	case wire.DescBegin, wire.DescAttach, wire.DescFlow, wire.DescTransfer, wire.DescDetach, wire.DescEnd:
		p, payload, _ = new(wire.Decoder).Decode(f.Body)
	}
	return f, p, payload
}

// unwrap cuts off descriptor, constructor and size of a data section, as go-amqp writes them.
func unwrap(payload []byte) []byte {
	const descriptor, short, long = 3, 2, 5
	switch {
	case len(payload) >= descriptor+short && payload[descriptor] == 0xa0: // vbin8, AMQP 1.0 §1.6.19
		return payload[descriptor+short:]
	case len(payload) >= descriptor+long:
		return payload[descriptor+long:]
	default:
		return payload
	}
}

// maxSpliced bounds, in bytes, a message from the peer: the largest message and its properties.
const maxSpliced = core.MaxMessageSizeKB<<10 + 1<<20

// grants records what the client allows the peer to send, because go-amqp does not enforce it.
type grants struct {
	mu       sync.Mutex
	memory   *fair.Share                // memory of arriving messages; nil if they are not counted
	sessions map[uint16]*grantedSession // by the client's channel
	peer     map[uint16]*grantedSession // by the peer's channel
}

type grantedSession struct {
	links  map[string]*grantedLink // receiving links of the client, by name
	client map[uint32]*grantedLink // by the client's handle
	peer   map[uint32]*grantedLink // by the peer's handle
}

type grantedLink struct {
	count uint32 // deliveries that have begun
	limit uint32 // value of count at which no credit is left
	size  int    // bytes so far of the delivery in flight
	open  bool   // a delivery is in flight
	taken int64  // bytes of memory that this delivery has taken
}

const (
	// spliceStep is the number of bytes by which the memory of an arriving message grows. Smaller
	// messages are not counted while they arrive.
	spliceStep = 256 << 10
	// spliceCost is the memory that each byte of an arriving message counts as: go-amqp copies the
	// message whenever its buffer is full.
	spliceCost = 2
)

// count takes memory for the delivery in flight, and reports whether there was enough. At the end
// of the delivery it returns the memory, because the receiver then counts the message.
func (g *grants) count(l *grantedLink) bool {
	switch {
	case g.memory == nil:
	case !l.open:
		g.memory.Add(-l.taken)
		l.taken = 0
	case spliceCost*int64(l.size) > l.taken+spliceStep:
		n := spliceCost*int64(l.size) - l.taken
		if !g.memory.Take(n) {
			return false
		}
		l.taken += n
	}
	return true
}

func (g *grants) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.memory != nil {
		g.memory.Close()
		g.memory = nil
	}
}

// note records a frame of the client; p may be nil.
func (g *grants) note(channel uint16, p wire.Performative) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[channel]
	switch p := p.(type) {
	case *wire.Begin:
		if g.sessions == nil {
			g.sessions, g.peer = map[uint16]*grantedSession{}, map[uint16]*grantedSession{}
		}
		g.sessions[channel] = &grantedSession{links: map[string]*grantedLink{}, client: map[uint32]*grantedLink{}, peer: map[uint32]*grantedLink{}}
	case *wire.Attach:
		if s != nil && p.Role == wire.RoleReceiver {
			l := &grantedLink{}
			s.links[p.Name], s.client[p.Handle] = l, l
		}
	case *wire.Flow:
		if s == nil || !p.Handle.Set || !p.LinkCredit.Set {
			return
		}
		if l := s.client[p.Handle.V]; l != nil {
			// The peer may use up credit until a flow that lowers it arrives, so the limit never
			// falls.
			if limit := p.DeliveryCount.Or(0) + p.LinkCredit.V; int32(limit-l.limit) > 0 {
				l.limit = limit
			}
		}
	case *wire.Detach:
		if s != nil {
			delete(s.client, p.Handle)
		}
	case *wire.End:
		delete(g.sessions, channel)
	}
}

// admit follows the peer's frames, and refuses a delivery without credit or of too many bytes.
func (g *grants) admit(channel uint16, p wire.Performative, size int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch p := p.(type) {
	case *wire.Begin:
		if s := g.sessions[p.RemoteChannel.V]; s != nil && p.RemoteChannel.Set {
			g.peer[channel] = s
		}
	case *wire.End:
		delete(g.peer, channel)
	case *wire.Attach:
		if s := g.peer[channel]; s != nil && p.Role == wire.RoleSender {
			if l := s.links[p.Name]; l != nil {
				l.count = p.InitialDeliveryCount.Or(0)
				l.limit += l.count
				s.peer[p.Handle] = l
			}
		}
	case *wire.Detach:
		if s := g.peer[channel]; s != nil && s.peer[p.Handle] != nil {
			l := s.peer[p.Handle]
			l.open = false
			g.count(l)
			delete(s.peer, p.Handle)
		}
	case *wire.Transfer:
		s := g.peer[channel]
		if s == nil || s.peer[p.Handle] == nil {
			return &wire.Error{Condition: wire.CondUnattachedHandle, Description: "The peer sent a transfer on a link that is not attached."}
		}
		l := s.peer[p.Handle]
		if !l.open {
			if int32(l.limit-l.count) <= 0 { // compared as serial numbers, AMQP 1.0 §2.6.7
				return &wire.Error{Condition: wire.CondTransferLimitExceeded, Description: "The peer sent a transfer without link credit."}
			}
			l.count++
			l.size = 0
		}
		if l.size += size; l.size > maxSpliced {
			return &wire.Error{Condition: wire.CondMessageSizeExceeded, Description: "The peer sent a message that is larger than the gateway allows."}
		}
		if l.open = p.More && !p.Aborted; !g.count(l) {
			return &wire.Error{Condition: wire.CondResourceLimitExceeded, Description: "The gateway has no memory for a large message of the peer."}
		}
	}
	return nil
}
