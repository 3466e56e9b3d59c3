package wire

import "github.com/crosstown-mq/crosstown/core/value"

// Message formats, the MessageFormat of a Transfer.
const (
	FormatMessage uint32 = 0
	FormatBatch   uint32 = 0x80013700 // the Service Bus batch: every data section is a whole message
)

// BodyKind is the kind of section that Sections.Body contains.
type BodyKind uint8

// The kinds of body.
const (
	BodyNone         BodyKind = iota // no body section
	BodyData                         // one data section; Body is its payload
	BodyDataSections                 // several data sections; Body is their run, descriptors included
	BodyValue                        // one value section, descriptor included
	BodySequence                     // one or more sequence sections, descriptors included
)

// Sections are the parts of an encoded message, AMQP 1.0 §3.2. Each is an encoded list or map
// without the section's descriptor. It is nil if the message does not have the section, or if the
// section is null.
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
	Durable       value.Opt[bool]   // absent is false
	Priority      value.Opt[uint8]  // absent is 4
	TTL           value.Opt[uint32] // ms
	FirstAcquirer value.Opt[bool]   // absent is false
	DeliveryCount uint32
}

// MessageProperties are the immutable properties of a message, §3.2.4. An empty string is an absent
// property, unless Empty says otherwise. An ID without a kind is absent.
type MessageProperties struct {
	// Empty has bit n set if field n of the list, counted from 0, is present and is the empty
	// string.
	Empty              uint16
	MessageID          ID
	UserID             []byte // nil is absent
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

// ID is a message id or correlation id in one of its four types, §3.2.11–§3.2.14. IDs are comparable.
type ID struct {
	Kind value.Kind // KindUint64, KindUUID, KindBinary or KindString; KindInvalid is absent
	Raw  string     // 8 bytes in big-endian order, 16 bytes in RFC 9562 order, the bytes, or the text
}
