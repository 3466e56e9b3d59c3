package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Admission says which messages there is room for.
type Admission interface {
	// Reserve asks for n bytes of memory for a message that arrives on l, and holds them until the message is Received
	// or Conn.Reserved no longer counts them. If begun is set, parts of messages have arrived, and this one cannot wait.
	Reserve(l *Link, n int64, begun bool) Verdict
	// Crowded says that a message of n bytes or more is dropped because there is no memory for it,
	// and returns why it is rejected.
	Crowded(l *Link, n int64) *wire.Error
	// TooSlow says that the rest of a message did not arrive in time after size bytes, and returns
	// why its link is detached.
	TooSlow(l *Link, size int64) *wire.Error
	// TooLarge says that a message of at least size bytes is thrown away, and returns why it is rejected.
	TooLarge(l *Link, size int64) *wire.Error
}

// Handler receives what the peer does. The methods of Conn call it, and it may call them. Byte
// slices in arguments are valid until the method returns, unless a comment says otherwise.
type Handler interface {
	Admission
	// Authenticate asks for an answer to a SASL init, given with Conn.Authenticated at once or later. Until then no
	// input is taken.
	Authenticate(init *wire.SASLInit)
	// Faulted says that the connection is closed because of err, and returns the error for the peer.
	Faulted(err *wire.Error) *wire.Error
	// Opened says that the connection is open.
	Opened(o *wire.Open)
	// Attached asks for Link.Accept or Link.Refuse, at once or later.
	Attached(l *Link)
	// Refused says that a message that begins with head is dropped, and that the client gets the reason.
	Refused(l *Link, head []byte, why *wire.Error)
	// Received hands over a message. Its payload belongs to the handler, which owes the link a Replenish and, if the
	// message is not settled, a Settle.
	Received(l *Link, m Message)
	// Disposed tells the outcome that the peer gives to a delivery. Unless the peer has settled, the handler owes a
	// Session.Settle, or a Session.Acknowledge for an outcome that is not final yet.
	Disposed(l *Link, d Disposal)
	// Missed says that a message or an outcome with this transactional state is not handed over, so
	// the transaction lacks it. It may be called several times for the same message or outcome.
	Missed(state wire.TransactionalState)
	// Lapsed returns why a delivery that Conn.Lapse has forgotten cannot be settled.
	Lapsed(l *Link) *wire.Error
	// Flowed says that the peer changed the credit of a link we send on, or asked to drain it.
	Flowed(l *Link)
	// Detached says that a link is gone, because the peer detached it or because its session or
	// connection ended. The peer awaits the answer, which Link.AnswerLater holds back.
	Detached(l *Link)
}

// Verdict is the answer to Admission.Reserve.
type Verdict uint8

// The verdicts. After Later nothing is read until Conn.Receive is called again with what it did not take.
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
	Cost    int64 // bytes of memory besides Payload; the handler's
}

// Tag is the delivery-tag of a delivery we send.
type Tag [16]byte

// Disposal is what the peer says about a delivery we sent.
type Disposal struct {
	ID      uint32 // delivery-id
	Tag     Tag
	State   wire.DeliveryState // nil if the peer settled without an outcome
	Settled bool               // the peer expects no answer
}

func fault(condition value.Symbol, text string) *wire.Error {
	return &wire.Error{Condition: condition, Description: text}
}

// Options are what a connection offers and tolerates. All fields but Leeway and ByReference must be set.
type Options struct {
	ContainerID    string
	Mechanisms     []value.Symbol // SASL mechanisms, in the order of the offer
	Properties     value.Map      // of our open
	MaxFrameSize   uint32         // bytes, both ways
	MaxSessions    int            // at most 65536
	MaxHandles     int            // links of one session
	MaxLinks       int            // links of the connection
	IncomingWindow uint32         // transfer frames the peer may send on a session before we say more
	IdleTimeout    time.Duration  // announced to the peer; it is given up on after twice that
	// Begins, if not nil, is asked whether a session may begin; the error, which closes the connection, says why not.
	Begins      func() *wire.Error
	Leeway      time.Duration // how much before its time Tick sends a heartbeat, so that many go out together
	Limits      value.Limits  // of values in performatives
	ByReference int           // size in bytes from which Take does not copy a body; 0: it copies all
}
