package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Handler reacts to the peer. The methods of Conn call it, and it may call them. Byte slices in
// arguments are valid until the method returns, unless a comment says otherwise.
type Handler interface {
	// Reserve requests n bytes for a message on l. They stay reserved until Received gets the
	// message or Conn.Reserved no longer counts them. begun is true if a message has arrived in
	// part. Its rest could not arrive during a wait, so the verdict must then not be Later.
	Reserve(l *Link, n int64, begun bool) Verdict
	// Crowded returns the error for a message of at least n bytes that finds no memory.
	Crowded(l *Link, n int64) *wire.Error
	// TooSlow returns the error for a link whose message stopped arriving after size bytes.
	TooSlow(l *Link, size int64) *wire.Error
	// TooLarge returns the error for a message of at least size bytes, which is dropped.
	TooLarge(l *Link, size int64) *wire.Error
	// Authenticate must call Conn.Authenticated, at once or later; no bytes are taken before.
	Authenticate(init *wire.SASLInit)
	// Faulted reports that the connection closes because of err. It returns the error for the peer.
	Faulted(err *wire.Error) *wire.Error
	Opened(o *wire.Open)
	// Attached must call Link.Accept or Link.Refuse, at once or later.
	Attached(l *Link)
	// Refused reports that the engine rejects, with the error why, a message that begins with head.
	Refused(l *Link, head []byte, why *wire.Error)
	// Received takes over a message with its payload. For each message the handler must call
	// Link.Replenish and, if the message is not settled, Link.Settle.
	Received(l *Link, m Message)
	// Disposed reports the peer's outcome for a delivery. Unless the peer has settled the delivery,
	// the handler must call Session.Settle, or Session.Acknowledge if the outcome is not final yet.
	Disposed(l *Link, d Disposal)
	// Missed reports that the engine has dropped an operation of a transaction, which must
	// therefore not be committed. The engine may report the same operation several times.
	Missed(state wire.TransactionalState)
	// Lapsed returns why a delivery that Conn.Lapse has removed cannot be settled any more.
	Lapsed(l *Link) *wire.Error
	// Flowed reports a change of credit, or a drain, on a link on which the engine sends.
	Flowed(l *Link)
	// Detached reports that a link, its session or its connection has ended. A peer that detached
	// waits for the answer, which Link.AnswerLater can delay.
	Detached(l *Link)
}

type Verdict uint8

// After the verdict Later, the caller of Conn.Receive reads nothing until it has called Receive
// again with the bytes that Receive did not use.
const (
	Granted Verdict = iota
	Later
	Never
)

type Message struct {
	ID      uint32 // delivery-id
	Format  uint32
	Settled bool
	State   wire.DeliveryState // nil if it is not part of a transaction
	Payload []byte
	Cost    int64 // memory besides Payload, in bytes, which only the handler counts
}

// Tag is the delivery-tag of a delivery that the engine sends.
type Tag [16]byte

type Disposal struct {
	ID      uint32 // delivery-id
	Tag     Tag
	State   wire.DeliveryState // nil if the peer has settled without an outcome
	Settled bool               // the peer has settled, and gets no answer
}

func fault(condition value.Symbol, text string) *wire.Error {
	return &wire.Error{Condition: condition, Description: text}
}

// Options configure a connection. Only Begins, Leeway and ByReference may be zero.
type Options struct {
	ContainerID    string
	Mechanisms     []value.Symbol
	Properties     value.Map     // properties of our open frame
	MaxFrameSize   uint32        // bytes, in both directions
	MaxSessions    int           // at most 65536
	MaxHandles     int           // links of one session
	MaxLinks       int           // links of the connection
	IncomingWindow uint32        // transfer frames that the peer may send on a session before it gets a new window
	IdleTimeout    time.Duration // announced to the peer; the connection closes after twice this time of silence
	// Begins returns nil if a session may begin, or the error with which the connection closes.
	Begins      func() *wire.Error
	Leeway      time.Duration // Tick may send a heartbeat this much earlier than due, so that several are sent together
	ByReference int           // size in bytes from which Take does not copy a body; 0 if it copies all bodies
}
