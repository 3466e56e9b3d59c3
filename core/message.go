package core

import (
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Message has the fields that a producer may set. A field with its zero value is not set, except
// for strings in EmptyText. Strings are UTF-8; times have a resolution of a millisecond.
type Message struct {
	MessageID     ID
	CorrelationID ID
	UserID        []byte

	To               string
	Subject          string // called Label in older APIs
	ReplyTo          string
	ContentType      string
	ContentEncoding  string
	SessionID        string
	ReplyToSessionID string
	PartitionKey     string
	ViaPartitionKey  string

	GroupSequence      value.Opt[uint32]
	CreationTime       time.Time
	AbsoluteExpiryTime time.Time

	// TimeToLive counts from when the message becomes available. 0 means that the producer has not
	// set it or, after the broker has applied the entity's default, that the message never expires.
	TimeToLive time.Duration
	// ScheduledEnqueueTime has no effect if it is in the past.
	ScheduledEnqueueTime time.Time
	// WasScheduled, which the broker sets, means that the message was accepted as scheduled.
	WasScheduled bool

	// Receivers get these fields as sent; the broker ignores them.
	Durable       value.Opt[bool]
	FirstAcquirer value.Opt[bool]
	Priority      value.Opt[uint8]
	// EmptyText marks strings that the producer has set to "". Other bits mean nothing.
	EmptyText TextFields

	// Annotations, with symbols as keys, are the sender's, without those that only the broker sets.
	Annotations Properties
	// DeliveryAnnotations are the sender's. Receivers get them, too.
	DeliveryAnnotations Properties
	Properties          Properties // the application's typed key-value pairs

	Body Body
	// Footer is the encoded footer map of the sender, or nil.
	Footer []byte

	// Transit is nil for a message from a producer.
	Transit *Transit
}

// TextFields is a set of string fields of a message.
type TextFields uint16

// Stores keep these values. The number of a bit is the position of the property in AMQP 1.0 §3.2.4.
const (
	FieldTo               TextFields = 1 << 2
	FieldSubject          TextFields = 1 << 3
	FieldReplyTo          TextFields = 1 << 4
	FieldCorrelationID    TextFields = 1 << 5
	FieldContentType      TextFields = 1 << 6
	FieldContentEncoding  TextFields = 1 << 7
	FieldSessionID        TextFields = 1 << 10
	FieldReplyToSessionID TextFields = 1 << 12
	FieldPartitionKey     TextFields = 1 << 13 // an annotation, not a property of AMQP
)

// Has reports whether the field f with the value s was set. A producer can set it to "".
func (m *Message) Has(f TextFields, s string) bool { return s != "" || m.EmptyText&f != 0 }

// HasSession reports whether the message belongs to a session, whose id may be "".
func (m *Message) HasSession() bool { return m.Has(FieldSessionID, m.SessionID) }

// Transit is what the broker records on a forwarded or published message.
type Transit struct {
	// EnqueuedSequenceNumber is the message's sequence number in the first entity that stored it.
	EnqueuedSequenceNumber int64
	// DeadLetterSource is the entity that dead-lettered the message before it was forwarded.
	DeadLetterSource string
	// Hops is how often the message was forwarded.
	Hops uint8
	// Destination is the entity to which a message in a transfer queue will be moved.
	Destination string
	// Key makes a move idempotent: a partition that knows the Key does not store the message again
	// (see Operations.Append). The Key is not stored with the message.
	Key string
}

const MaxHops = 4

const messageOverhead = 64

// Size estimates the bytes of the message with its metadata, which the maximum message size limits.
// An entity's quota limits the memory or disk space of the store instead.
func (m *Message) Size() int {
	return messageOverhead + m.HeaderSize() + len(m.Body.Bytes)
}

// HeaderSize returns Size without the body.
func (m *Message) HeaderSize() int {
	return len(m.MessageID.raw) + len(m.CorrelationID.raw) + len(m.UserID) +
		len(m.To) + len(m.Subject) + len(m.ReplyTo) + len(m.ContentType) + len(m.ContentEncoding) +
		len(m.SessionID) + len(m.ReplyToSessionID) + len(m.PartitionKey) + len(m.ViaPartitionKey) +
		len(m.Annotations.encoded) + len(m.DeliveryAnnotations.encoded) + len(m.Properties.encoded) + len(m.Footer)
}

// BodyKind says what Body.Bytes contains.
type BodyKind uint8

const (
	// BodyData is an opaque payload, all of Bytes.
	BodyData BodyKind = iota
	// BodyDataSections is several AMQP data sections, as the client encoded them.
	BodyDataSections
	// BodyValue is one AMQP value section, as the client encoded it.
	BodyValue
	// BodySequence is one or more AMQP sequence sections, as the client encoded them.
	BodySequence
	// BodyNone is a message without a body; Bytes is empty.
	BodyNone
)

// Body is a message's body. The broker never changes it.
type Body struct {
	Kind  BodyKind
	Bytes []byte
}

// State is the state of a stored message for its receivers.
type State uint8

// The numbers are those of x-opt-message-state.
const (
	Active State = iota
	Deferred
	Scheduled
)

func (s State) String() string {
	switch s {
	case Deferred:
		return "Deferred"
	case Scheduled:
		return "Scheduled"
	default:
		return "Active"
	}
}

// BrokerProperties are set only by the broker.
type BrokerProperties struct {
	SequenceNumber         int64
	EnqueuedSequenceNumber int64 // the one in the first entity that stored the message
	EnqueuedTime           time.Time
	ExpiresAt              time.Time // zero: never
	DeliveryCount          uint32    // failed deliveries before this one
	LockToken              LockToken // zero unless the message is delivered with a lock
	LockedUntil            time.Time // zero unless locked; a peeked message has it, but no LockToken
	State                  State
	DeadLetterSource       string
	DeadLetteredTime       time.Time // zero for other messages, and if unknown
	Partitioned            bool      // the entity has several partitions
}

type Delivery struct {
	*Message
	BrokerProperties
}

// SetDue corrects ScheduledEnqueueTime if Activate has changed it since the message was stored. due
// is when the message becomes due, or zero if it is no longer scheduled. For a message
// that became available before its scheduled time, SetDue sets the time at which that happened.
func (d *Delivery) SetDue(due time.Time) {
	if due.IsZero() {
		if due = d.EnqueuedTime; !d.ScheduledEnqueueTime.After(due) {
			return
		}
	}
	if d.ScheduledEnqueueTime.UnixMilli() != due.UnixMilli() {
		m := *d.Message
		m.ScheduledEnqueueTime, d.Message = due, &m
	}
}

// SizeOf returns the sum of Message.Size.
func SizeOf(ds []Delivery) (bytes int) {
	for i := range ds {
		bytes += ds[i].Size()
	}
	return bytes
}

// User properties of dead letters.
const (
	PropertyDeadLetterReason      = "DeadLetterReason"
	PropertyDeadLetterDescription = "DeadLetterErrorDescription"
)

// The reasons and descriptions of messages that the broker itself dead-letters.
const (
	ReasonMaxDeliveryCount      = "MaxDeliveryCountExceeded"
	DescriptionMaxDeliveryCount = "Message could not be consumed after %d delivery attempts."
	ReasonMaxHops               = "MaxTransferHopCountExceeded"
	DescriptionMaxHops          = "The maximum number of allowed hops when forwarding between queues has been exceeded. This value is set to 4."
	ReasonNoSession             = "Session id is null."
	DescriptionNoSession        = "Session enabled entity doesn't allow a message whose session identifier is null."
	ReasonFilterException       = "FilterException"
	ReasonExpired               = "TTLExpiredException"
	DescriptionExpired          = "The message expired and was dead lettered."
)

// PartitionOf returns the index of a key among n partitions: the 64-bit FNV-1a hash of the key,
// modulo n, after the final mix of MurmurHash3. Without the mix, the low bits would depend on
// little more than the parity of the key's bytes. The function must never change, because stored
// messages would be in the wrong partition.
func PartitionOf(key string, n int) uint16 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return uint16(h % uint64(n))
}

// PinKey returns the key whose messages keep their order when they are forwarded: the SessionKey
// or, without a session, the partition key in the same encoding. Without these it is "".
func (m *Message) PinKey() string {
	if key := m.SessionKey(); key != "" || m.PartitionKey == "" {
		return string(key)
	}
	return string(KeyOfSession(m.PartitionKey))
}

// maxSections is the maximum size, in bytes, of a body with several sections that Value decodes.
// value.Limits bounds only each section, and decoded values need several times the memory.
const maxSections = 1 << 20

// Payload returns the bytes of an opaque payload, with its sections joined; the caller must not
// change them. ok is false for AMQP values and sequences, and for a damaged body.
func (b Body) Payload() (payload []byte, ok bool) {
	switch b.Kind {
	case BodyData, BodyNone:
		return b.Bytes, true
	case BodyDataSections:
		joined := make([]byte, 0, len(b.Bytes))
		ok := b.EachSection(func(section []byte) error {
			data, _, err := value.ReadBinary(section)
			joined = append(joined, data...)
			return err
		}) == nil
		return joined, ok
	default:
		return nil, false
	}
}

// Value decodes an AMQP value or sequence; several sequences become a list of lists. It fails if
// the sections together are too large.
func (b Body) Value() (any, error) {
	var sections value.List
	err := b.EachSection(func(section []byte) error {
		if len(sections) > 0 && len(b.Bytes) > maxSections {
			return fmt.Errorf("the sections of the body have %d bytes in total: at most %d are allowed", len(b.Bytes), maxSections)
		}
		v, _, err := value.Decode(section, value.Limits{})
		sections = append(sections, v)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the body: %w", err)
	case b.Kind == BodyValue && len(sections) == 1, b.Kind == BodySequence && len(sections) == 1:
		return sections[0], nil
	case b.Kind == BodySequence && len(sections) > 1:
		return sections, nil
	default:
		return nil, fmt.Errorf("the body has %d sections: it must be one AMQP value section, or AMQP sequence sections", len(sections))
	}
}

// EachSection calls f with the encoded value of each section, until an error.
func (b Body) EachSection(f func(section []byte) error) error {
	for rest := b.Bytes; len(rest) > 0; {
		section, after, err := value.ReadRaw(rest)
		if err != nil {
			return err
		}
		if value.KindOf(section) == value.KindDescribed {
			if _, section, err = value.ReadRaw(section[1:]); err != nil {
				return err
			}
		}
		if err := f(section); err != nil {
			return err
		}
		rest = after
	}
	return nil
}

// MessageField describes a string or an id of a sender, for code that handles them by name.
type MessageField struct {
	Name string     // in Service Bus, in BrokerProperties and in SQL
	Bit  TextFields // 0: an empty string means not set
	// Limit is the maximum number of characters, or 0.
	Limit int
	// Exactly one of Text and ID is set. It returns a pointer to the field.
	Text func(*Message) *string
	ID   func(*Message) *ID
}

var MessageFields = [...]MessageField{
	{Name: "MessageId", Limit: MaxKeyLength, ID: func(m *Message) *ID { return &m.MessageID }},
	{Name: "CorrelationId", Bit: FieldCorrelationID, ID: func(m *Message) *ID { return &m.CorrelationID }},
	{Name: "SessionId", Bit: FieldSessionID, Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.SessionID }},
	{Name: "ReplyToSessionId", Bit: FieldReplyToSessionID, Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.ReplyToSessionID }},
	{Name: "Label", Bit: FieldSubject, Text: func(m *Message) *string { return &m.Subject }},
	{Name: "To", Bit: FieldTo, Text: func(m *Message) *string { return &m.To }},
	{Name: "ReplyTo", Bit: FieldReplyTo, Text: func(m *Message) *string { return &m.ReplyTo }},
	{Name: "ContentType", Bit: FieldContentType, Text: func(m *Message) *string { return &m.ContentType }},
	{Name: "PartitionKey", Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.PartitionKey }},
	{Name: "ViaPartitionKey", Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.ViaPartitionKey }},
}

// Set sets the field to a string, which may be empty.
func (f *MessageField) Set(m *Message, s string) {
	if f.Text != nil {
		*f.Text(m) = s
	} else {
		*f.ID(m) = StringID(s)
	}
	if s == "" {
		m.EmptyText |= f.Bit
	}
}

func (f *MessageField) Unset(m *Message) {
	f.Set(m, "")
	m.EmptyText &^= f.Bit
}
