package core

import (
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Message contains the fields that a producer may set. Zero fields are not set, except for the
// strings that EmptyText lists. Strings are UTF-8; times have a resolution of a millisecond.
type Message struct {
	MessageID     ID
	CorrelationID ID
	UserID        []byte

	To               string
	Subject          string // also called Label
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

	// TimeToLive counts from acceptance, or from activation. 0 means that the producer has not set
	// it. After the broker has applied the entity's default, 0 means that the message never
	// expires.
	TimeToLive time.Duration
	// ScheduledEnqueueTime schedules the message if it is in the future.
	ScheduledEnqueueTime time.Time
	// WasScheduled means that ScheduledEnqueueTime was in the future when the broker accepted the
	// message. The broker sets it.
	WasScheduled bool

	// Durable and FirstAcquirer are kept for receivers; the broker ignores them.
	Durable       value.Opt[bool]
	FirstAcquirer value.Opt[bool]
	Priority      value.Opt[uint8]
	// EmptyText lists the string fields that the producer has set to the empty string. The bit of a
	// field that is not empty has no meaning.
	EmptyText TextFields

	// Annotations are the sender's message annotations, without those that the broker owns. Keys
	// are symbols.
	Annotations Properties
	// DeliveryAnnotations are the sender's annotations for the next hop; receivers get them, too.
	DeliveryAnnotations Properties
	// Properties are the application's typed key-value pairs.
	Properties Properties

	Body Body
	// Footer is the encoded footer map of the sender, or nil.
	Footer []byte

	// Transit contains data that the broker records on a message from another entity. It is nil for
	// a message from a producer.
	Transit *Transit
}

// TextFields is a set of string fields of a message.
type TextFields uint16

// The string fields. Stores keep these numbers. The bit of a property in AMQP 1.0 §3.2.4 is the
// property's position in that list.
const (
	FieldTo               TextFields = 1 << 2
	FieldSubject          TextFields = 1 << 3
	FieldReplyTo          TextFields = 1 << 4
	FieldCorrelationID    TextFields = 1 << 5
	FieldContentType      TextFields = 1 << 6
	FieldContentEncoding  TextFields = 1 << 7
	FieldSessionID        TextFields = 1 << 10
	FieldReplyToSessionID TextFields = 1 << 12
	FieldPartitionKey     TextFields = 1 << 13 // an annotation, so it has no position in that list
)

// Has reports whether a string field with the value s was set: s is not empty, or the producer has
// set the field to the empty string.
func (m *Message) Has(f TextFields, s string) bool { return s != "" || m.EmptyText&f != 0 }

// HasSession reports whether the message belongs to a session. The empty string
// may be a session's id.
func (m *Message) HasSession() bool { return m.Has(FieldSessionID, m.SessionID) }

// Transit is the data of a forwarded or published message.
type Transit struct {
	// EnqueuedSequenceNumber is the message's number in the entity to which it was first sent.
	EnqueuedSequenceNumber int64
	// DeadLetterSource is the entity in which the message was dead-lettered before it was
	// forwarded.
	DeadLetterSource string
	// Hops counts how often the message was forwarded.
	Hops uint8
	// Destination is the destination of a message in a transfer queue.
	Destination string
	// Key makes a move happen only once: an Append or Publish whose Key the partition knows stores
	// nothing (see Operations.Append). The Key is not stored with the message.
	Key string
}

// MaxHops is how often a message may be forwarded.
const MaxHops = 4

// messageOverhead is the share of the fixed fields in Size.
const messageOverhead = 64

// Size estimates the bytes of the message with its metadata. The maximum message size limits these
// bytes. The entity's quota does not limit these bytes, but the memory or disk space that the store
// uses.
func (m *Message) Size() int {
	return messageOverhead + m.HeaderSize() + len(m.Body.Bytes)
}

// HeaderSize returns the part of Size that is metadata.
func (m *Message) HeaderSize() int {
	return len(m.MessageID.raw) + len(m.CorrelationID.raw) + len(m.UserID) +
		len(m.To) + len(m.Subject) + len(m.ReplyTo) + len(m.ContentType) + len(m.ContentEncoding) +
		len(m.SessionID) + len(m.ReplyToSessionID) + len(m.PartitionKey) + len(m.ViaPartitionKey) +
		len(m.Annotations.encoded) + len(m.DeliveryAnnotations.encoded) + len(m.Properties.encoded) + len(m.Footer)
}

// BodyKind is the kind of content in Body.Bytes.
type BodyKind uint8

const (
	// BodyData is an opaque payload; Bytes is the payload itself.
	BodyData BodyKind = iota
	// BodyDataSections is several AMQP data sections, as encoded by the peer.
	BodyDataSections
	// BodyValue is one AMQP value section with its descriptor, as the peer has encoded it.
	BodyValue
	// BodySequence is one or more AMQP sequence sections, as encoded by the peer.
	BodySequence
	// BodyNone is a message without any body; Bytes is empty.
	BodyNone
)

// Body is an opaque payload with its kind. The broker never changes it.
type Body struct {
	Kind  BodyKind
	Bytes []byte
}

// State is the state of a stored message.
type State uint8

// The states by the SDKs' numbers (x-opt-message-state).
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
	EnqueuedSequenceNumber int64 // its number in the entity to which it was first sent
	EnqueuedTime           time.Time
	ExpiresAt              time.Time // zero: never
	DeliveryCount          uint32    // attempted deliveries before this one
	LockToken              LockToken // zero unless peek-locked
	LockedUntil            time.Time // zero unless locked; a peeked message has it, but no LockToken
	State                  State
	DeadLetterSource       string
	DeadLetteredTime       time.Time // of a dead letter; zero for others, and if it is not known
	Partitioned            bool      // the entity has several partitions
}

// Delivery is a message with its broker properties.
type Delivery struct {
	*Message
	BrokerProperties
}

// SetDue corrects the time for which a message is or was scheduled, if Activate has changed it
// since the message was stored. due is when the message becomes due, or zero if it is not
// scheduled. A message that is not scheduled was scheduled for the time at which it became
// available, or for an earlier time.
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

// SizeOf returns the total size of deliveries.
func SizeOf(ds []Delivery) (bytes int) {
	for i := range ds {
		bytes += ds[i].Size()
	}
	return bytes
}

// The user properties that say why a message was dead-lettered.
const (
	PropertyDeadLetterReason      = "DeadLetterReason"
	PropertyDeadLetterDescription = "DeadLetterErrorDescription"
)

// The dead-letter reasons and descriptions that the broker itself gives.
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

// PartitionOf returns which of n partitions a key belongs to: the 64-bit FNV-1a hash of its bytes,
// modulo n, after MurmurHash3's final mix. The low bits of FNV alone contain little more than the
// parity of the key. The function must never change, because stored messages would then be in the
// wrong partition.
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

// PinKey returns the key under which messages keep their order when they are forwarded: the key of
// the message's session, or the key that a session with the partition key as its id would have, or
// "".
func (m *Message) PinKey() string {
	if key := m.SessionKey(); key != "" || m.PartitionKey == "" {
		return string(key)
	}
	return string(KeyOfSession(m.PartitionKey))
}
