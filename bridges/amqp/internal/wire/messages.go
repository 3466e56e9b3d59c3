package wire

import "github.com/crosstown-mq/crosstown/core/value"

// Message formats, the MessageFormat of a Transfer.
const (
	FormatMessage uint32 = 0
	FormatBatch   uint32 = 0x80013700 // the Service Bus batch: every data section is a whole message
)

// BodyKind says what Sections.Body holds.
type BodyKind uint8

// The kinds of body.
const (
	BodyNone         BodyKind = iota // no body section
	BodyData                         // one data section; Body is its payload
	BodyDataSections                 // several data sections; Body is their run, descriptors included
	BodyValue                        // one value section, descriptor included
	BodySequence                     // one or more sequence sections, descriptors included
)

// Sections are the parts of an encoded message, AMQP 1.0 §3.2. Each is the encoded list or map without the section's
// descriptor, or nil if there is no such section or it is null.
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

// DefaultPriority is the priority of a message whose header has none.
const DefaultPriority = 4

// Header is the transport header of a message, §3.2.1.
type Header struct {
	Durable       bool
	Priority      value.Opt[uint8]  // absent is DefaultPriority
	TTL           value.Opt[uint32] // ms
	FirstAcquirer bool
	DeliveryCount uint32
}

// MessageProperties are the immutable properties of a message, §3.2.4.
type MessageProperties struct {
	MessageID          any // uint64, value.UUID, []byte or string; nil is absent
	UserID             []byte
	To                 value.Opt[string]
	Subject            value.Opt[string]
	ReplyTo            value.Opt[string]
	CorrelationID      any // like MessageID
	ContentType        value.Opt[string]
	ContentEncoding    value.Opt[string]
	AbsoluteExpiryTime value.Opt[value.Timestamp]
	CreationTime       value.Opt[value.Timestamp]
	GroupID            value.Opt[string]
	GroupSequence      value.Opt[uint32]
	ReplyToGroupID     value.Opt[string]
}
