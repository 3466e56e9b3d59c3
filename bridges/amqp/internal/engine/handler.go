package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Admission decides which messages there is memory for.
type Admission interface {
	// Reserve requests n bytes of memory for a message that arrives on l. The memory stays reserved
	// until the message is Received or Conn.Reserved no longer counts it. If begun is set, parts of
	// messages have arrived, so this message cannot wait.
	Reserve(l *Link, n int64, begun bool) Verdict
	// Crowded reports that the engine drops a message of n bytes or more because there is no memory
	// for it. It returns the reason with which the engine rejects the message.
	Crowded(l *Link, n int64) *wire.Error
	// TooSlow reports that the rest of a message did not arrive in time after size bytes. It
	// returns the reason with which the engine detaches the link.
	TooSlow(l *Link, size int64) *wire.Error
	// TooLarge reports that the engine drops a message of at least size bytes. It returns the
	// reason with which the engine rejects the message.
	TooLarge(l *Link, size int64) *wire.Error
}

// Handler receives what the peer does. The methods of Conn call the Handler, which may call them in
// turn. Byte slices in arguments are valid until the method returns, unless a comment says
// otherwise.
type Handler interface {
	Admission
	// Authenticate must answer a SASL init with Conn.Authenticated, at once or later. Until then
	// the engine takes no input.
	Authenticate(init *wire.SASLInit)
	// Faulted reports that err closes the connection. It returns the error for the peer.
	Faulted(err *wire.Error) *wire.Error
	// Opened reports that the connection is open.
	Opened(o *wire.Open)
	// Attached must call Link.Accept or Link.Refuse, at once or later.
	Attached(l *Link)
	// Refused reports that the engine drops a message that begins with head, and that the client
	// gets the reason.
	Refused(l *Link, head []byte, why *wire.Error)
	// Received delivers a message, whose payload belongs to the handler. For each message the
	// handler must call Replenish of the link and, if the message is not settled, Settle.
	Received(l *Link, m Message)
	// Disposed reports the outcome that the peer gives to a delivery. Unless the peer has settled,
	// the handler must call Session.Settle, or Session.Acknowledge if the outcome is not final yet.
	Disposed(l *Link, d Disposal)
	// Missed reports that a message or an outcome of a transaction does not reach the handler, so
	// that the transaction is incomplete. It may be called several times for the same message or
	// outcome.
	Missed(state wire.TransactionalState)
	// Lapsed returns why a delivery that Conn.Lapse has removed cannot be settled.
	Lapsed(l *Link) *wire.Error
	// Flowed reports that the peer changed the credit of a link on which the engine sends, or
	// requested a drain.
	Flowed(l *Link)
	// Detached reports that a link has ended, because the peer detached it or because its session
	// or connection ended. The peer waits for the answer, which Link.AnswerLater can delay.
	Detached(l *Link)
}

// Verdict is the answer to Admission.Reserve.
type Verdict uint8

// The verdicts. After Later, the caller reads nothing until it calls Conn.Receive again with the
// bytes that were not used.
const (
	Granted Verdict = iota
	Later
	Never
)

// Message is a complete message that the peer sent.
type Message struct {
	ID      uint32 // delivery-id
	Format  uint32
	Settled bool
	State   wire.DeliveryState // nil unless the transfer belongs to a transaction
	Payload []byte
	Cost    int64 // bytes of memory besides Payload; set by the handler
}

// Tag is the delivery-tag of a delivery that the engine sends.
type Tag [16]byte

// Disposal is the peer's disposition of a delivery that the engine has sent.
type Disposal struct {
	ID      uint32 // delivery-id
	Tag     Tag
	State   wire.DeliveryState // nil if the peer settled without an outcome
	Settled bool               // the peer expects no answer
}

func fault(condition value.Symbol, text string) *wire.Error {
	return &wire.Error{Condition: condition, Description: text}
}

// Options configure a connection. All fields except Leeway and ByReference must be set.
type Options struct {
	ContainerID    string
	Mechanisms     []value.Symbol // SASL mechanisms, in the order of the offer
	Properties     value.Map      // of our open
	MaxFrameSize   uint32         // bytes, both ways
	MaxSessions    int            // at most 65536
	MaxHandles     int            // links of one session
	MaxLinks       int            // links of the connection
	IncomingWindow uint32         // transfer frames the peer may send on a session before we say more
	IdleTimeout    time.Duration  // announced; a silent peer is given up after twice that
	// Begins, if not nil, returns nil, or the reason why a session may not begin; then the
	// connection is closed.
	Begins      func() *wire.Error
	Leeway      time.Duration // how much earlier Tick sends a heartbeat, so that many go out together
	Limits      value.Limits  // of values in performatives
	ByReference int           // bytes from which Take does not copy a body; 0: it copies all
}
