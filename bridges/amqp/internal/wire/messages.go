package wire

import "github.com/crosstown-mq/crosstown/core/value"

// Values of Transfer.MessageFormat.
const (
	FormatMessage uint32 = 0
	FormatBatch   uint32 = 0x80013700 // a batch of Service Bus, in which each data section is a message
)

type BodyKind uint8

const (
	BodyNone         BodyKind = iota // the message has no body
	BodyData                         // the contents of the only data section
	BodyDataSections                 // several data sections, with their descriptors
	BodyValue                        // one value section, with its descriptor
	BodySequence                     // one or more sequence sections, with their descriptors
)

// Sections are the parts of an encoded message, AMQP 1.0 §3.2: encoded lists and maps without the
// sections' descriptors. A part is nil if the section is missing or null.
type Sections struct {
	Header                []byte
	DeliveryAnnotations   []byte
	MessageAnnotations    []byte
	Properties            []byte
	ApplicationProperties []byte
	BodyKind              BodyKind
	Body                  []byte
	Footer                []byte
}

// Header is the transport header of a message, §3.2.1.
type Header struct {
	Durable       value.Opt[bool]   // false if absent
	Priority      value.Opt[uint8]  // 4 if absent
	TTL           value.Opt[uint32] // ms
	FirstAcquirer value.Opt[bool]   // false if absent
	DeliveryCount uint32
}

// MessageProperties are the immutable properties of a message, §3.2.4. An empty string means that
// the property is absent, unless Empty says otherwise. An ID without a kind is absent, too.
type MessageProperties struct {
	// Bit n of Empty is set if field n of the list, counted from 0, is present and empty.
	Empty              uint16
	MessageID          ID
	UserID             []byte // nil if absent
	To                 string
	Subject            string
	ReplyTo            string
	CorrelationID      ID
	ContentType        string
	ContentEncoding    string
	AbsoluteExpiryTime value.Opt[value.Timestamp]
	CreationTime       value.Opt[value.Timestamp]
	GroupID            string
	GroupSequence      value.Opt[uint32]
	ReplyToGroupID     string
}

// ID is a message id or correlation id of one of four types, §3.2.11–§3.2.14. IDs are comparable.
type ID struct {
	Kind value.Kind // KindUint64, KindUUID, KindBinary or KindString; KindInvalid if absent
	Raw  string     // 8 bytes in big-endian order, 16 bytes in RFC 9562 order, the bytes, or the text
}
