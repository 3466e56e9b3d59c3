package wire

import "github.com/crosstown-mq/crosstown/core/value"

// Performative is the body of a frame: a pointer to one of the structs of this file, whose fields
// are named as in the specification. A nil slice or map, and an empty string or symbol, are absent
// fields. Decoding fails if a mandatory field, which has a plain type, is missing. Fields whose
// default is not zero have optional types.
type Performative interface{ fields(l *list) }

// Values of absent fields, AMQP 1.0 §2.7.
const (
	DefaultMaxFrameSize uint32 = 4294967295
	DefaultChannelMax   uint16 = 65535
	DefaultHandleMax    uint32 = 4294967295
)

// MinMaxFrameSize is the frame size that every peer must accept (AMQP 1.0 §2.8.19).
const MinMaxFrameSize = 512

// Open negotiates a connection, AMQP 1.0 §2.7.1.
type Open struct {
	ContainerID         string
	Hostname            string
	MaxFrameSize        value.Opt[uint32] // bytes; DefaultMaxFrameSize if absent
	ChannelMax          value.Opt[uint16] // DefaultChannelMax if absent
	IdleTimeOut         value.Opt[uint32] // ms; no time-out if absent or 0
	OutgoingLocales     []value.Symbol
	IncomingLocales     []value.Symbol
	OfferedCapabilities []value.Symbol
	DesiredCapabilities []value.Symbol
	Properties          value.Map
}

// Begin starts a session on a channel, §2.7.2.
type Begin struct {
	RemoteChannel       value.Opt[uint16] // only in the answer
	NextOutgoingID      uint32
	IncomingWindow      uint32
	OutgoingWindow      uint32
	HandleMax           value.Opt[uint32] // DefaultHandleMax if absent
	OfferedCapabilities []value.Symbol
	DesiredCapabilities []value.Symbol
	Properties          value.Map
}

// Role is the role, on a link, of the peer that sends the frame.
type Role bool

const (
	RoleSender   Role = false
	RoleReceiver Role = true
)

// SenderSettleMode says how a sender settles, §2.8.2.
type SenderSettleMode uint8

// If the mode is absent, it is SenderMixed.
const (
	SenderUnsettled SenderSettleMode = 0
	SenderSettled   SenderSettleMode = 1
	SenderMixed     SenderSettleMode = 2
)

// ReceiverSettleMode says when a receiver settles, §2.8.3.
type ReceiverSettleMode uint8

// If the mode is absent, it is ReceiverFirst.
const (
	ReceiverFirst  ReceiverSettleMode = 0
	ReceiverSecond ReceiverSettleMode = 1
)

// Attach attaches a link to a session, §2.7.3. The peer's unsettled map is checked and then
// ignored, because links are never resumed.
type Attach struct {
	Name                 string
	Handle               uint32
	Role                 Role
	SndSettleMode        value.Opt[SenderSettleMode]
	RcvSettleMode        value.Opt[ReceiverSettleMode]
	Source               *Source
	Target               *Target      // nil if Coordinator is set
	Coordinator          *Coordinator // set instead of Target if the link is for transactions
	IncompleteUnsettled  bool
	InitialDeliveryCount value.Opt[uint32]
	MaxMessageSize       value.Opt[uint64] // bytes; no limit if absent or 0
	OfferedCapabilities  []value.Symbol
	DesiredCapabilities  []value.Symbol
	Properties           value.Map
}

// Source says where the messages of a link come from, §3.5.3.
type Source struct {
	Address               value.Opt[string]
	Durable               value.Opt[uint32]
	ExpiryPolicy          value.Symbol
	Timeout               value.Opt[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties value.Map
	DistributionMode      value.Symbol
	Filter                value.Map // values may be value.Described
	DefaultOutcome        DeliveryState
	Outcomes              []value.Symbol
	Capabilities          []value.Symbol
}

// Target says where the messages of a link go to, §3.5.4.
type Target struct {
	Address               value.Opt[string]
	Durable               value.Opt[uint32]
	ExpiryPolicy          value.Symbol
	Timeout               value.Opt[uint32] // seconds
	Dynamic               bool
	DynamicNodeProperties value.Map
	Capabilities          []value.Symbol
}

// Coordinator is the target of a link that controls transactions, §4.5.1.
type Coordinator struct {
	Capabilities []value.Symbol
}

// Flow describes the state of a session and, if Handle is set, of a link, §2.7.4.
type Flow struct {
	NextIncomingID value.Opt[uint32]
	IncomingWindow uint32
	NextOutgoingID uint32
	OutgoingWindow uint32
	Handle         value.Opt[uint32]
	DeliveryCount  value.Opt[uint32]
	LinkCredit     value.Opt[uint32]
	Available      value.Opt[uint32]
	Drain          bool
	Echo           bool
	Properties     []byte // encoded map
}

// Transfer describes a delivery or a part of a delivery, §2.7.5, without the payload.
type Transfer struct {
	Handle        uint32
	DeliveryID    value.Opt[uint32]
	DeliveryTag   []byte // nil if absent; an empty tag is valid
	MessageFormat value.Opt[uint32]
	Settled       value.Opt[bool]
	More          bool
	RcvSettleMode value.Opt[ReceiverSettleMode]
	State         DeliveryState
	Resume        bool
	Aborted       bool
	Batchable     bool
}

// Disposition describes the state of a range of deliveries, §2.7.6.
type Disposition struct {
	Role      Role
	First     uint32
	Last      value.Opt[uint32] // First if absent
	Settled   bool
	State     DeliveryState
	Batchable bool
}

// Detach ends a link, §2.7.7.
type Detach struct {
	Handle uint32
	Closed bool
	Error  *Error
}

// End ends a session, §2.7.8.
type End struct{ Error *Error }

// Close ends a connection, §2.7.9.
type Close struct{ Error *Error }

// SASLMechanisms lists the mechanisms that the server offers, AMQP 1.0 §5.3.3.1.
type SASLMechanisms struct{ Mechanisms []value.Symbol }

// SASLInit has the mechanism that the client chooses, §5.3.3.2.
type SASLInit struct {
	Mechanism       value.Symbol
	InitialResponse []byte // nil if absent
	Hostname        string
}

// SASLChallenge is a challenge of the server, §5.3.3.3.
type SASLChallenge struct{ Challenge []byte }

// SASLResponse is the client's response to a challenge, §5.3.3.4.
type SASLResponse struct{ Response []byte }

// SASLOutcome ends the exchange, §5.3.3.5.
type SASLOutcome struct {
	Code           SASLCode
	AdditionalData []byte // nil if absent
}

type SASLCode uint8

// The results of authentication, AMQP 1.0 §5.3.3.6.
const (
	SASLOK      SASLCode = 0
	SASLAuth    SASLCode = 1 // wrong credentials
	SASLSys     SASLCode = 2 // system error
	SASLSysPerm SASLCode = 3
	SASLSysTemp SASLCode = 4
)

// DeliveryState is a Received, Accepted, Rejected, Released, Modified, Declared or
// TransactionalState, by value; nil if there is none.
type DeliveryState interface{ deliveryState() Descriptor }

func (Received) deliveryState() Descriptor           { return DescReceived }
func (Accepted) deliveryState() Descriptor           { return DescAccepted }
func (Rejected) deliveryState() Descriptor           { return DescRejected }
func (Released) deliveryState() Descriptor           { return DescReleased }
func (Modified) deliveryState() Descriptor           { return DescModified }
func (Declared) deliveryState() Descriptor           { return DescDeclared }
func (TransactionalState) deliveryState() Descriptor { return DescTransactionalState }

// Received says how much of a delivery has arrived, AMQP 1.0 §3.4.1.
type Received struct {
	SectionNumber uint32
	SectionOffset uint64
}

// Accepted is the outcome of a delivery that was processed, §3.4.2.
type Accepted struct{}

// Rejected is the outcome of an invalid delivery, §3.4.3. Service Bus clients dead-letter with it.
type Rejected struct{ Error *Error }

// Released is the outcome of a delivery that the receiver did not and will not process, §3.4.4.
type Released struct{}

// Modified is the outcome of a delivery that the receiver did not process, and whose message is to
// be changed, §3.4.5. Service Bus clients abandon and defer with it.
type Modified struct {
	DeliveryFailed     value.Opt[bool]
	UndeliverableHere  value.Opt[bool]
	MessageAnnotations []byte // encoded map
}

// Declared answers a declare, §4.5.5.
type Declared struct{ TxnID []byte }

// TransactionalState says that a transfer or an outcome belongs to a transaction, §4.5.8. Outcome
// is nil in a transfer, and is never a TransactionalState.
type TransactionalState struct {
	TxnID   []byte
	Outcome DeliveryState
}

// TransactionRequest is a *Declare or *Discharge, in the value section of a message.
type TransactionRequest interface{ fields(l *list) }

// Declare begins a transaction, AMQP 1.0 §4.5.2.
type Declare struct {
	GlobalID []byte // an encoded value; nil if absent
}

// Discharge ends a transaction, §4.5.3.
type Discharge struct {
	TxnID []byte
	Fail  bool
}
