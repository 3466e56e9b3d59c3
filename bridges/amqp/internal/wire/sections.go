package wire

import "github.com/crosstown-mq/crosstown/core/value"

type section struct {
	desc Descriptor
	raw  []byte // the whole section, with its descriptor
	enc  []byte
}

func cutSection(b []byte, lim value.Limits) (s section, rest []byte, err error) {
	desc, enc, err := readDescriptor(b)
	if err != nil {
		return section{}, nil, refuse(CondDecodeError, "cannot decode a section of the message: %v", err)
	}
	rest, err = value.Skip(enc, lim)
	if err != nil {
		return section{}, nil, refuse(CondDecodeError, "%s: %v", desc, err)
	}
	n, m := len(b)-len(rest), len(enc)-len(rest)
	return section{desc: desc, raw: b[:n:n], enc: enc[:m:m]}, rest, nil
}

func (s section) is() (known, body bool) {
	return s.desc >= DescHeader && s.desc <= DescFooter, s.desc >= DescData && s.desc <= DescValue
}

// sectionKinds are the types that the values of sections must have, from the header on. A value
// section may have any.
var sectionKinds = [...]value.Kind{
	0: value.KindList, DescProperties - DescHeader: value.KindList, DescSequence - DescHeader: value.KindList,
	DescDeliveryAnnotations - DescHeader: value.KindMap, DescMessageAnnotations - DescHeader: value.KindMap,
	DescApplicationProperties - DescHeader: value.KindMap, DescFooter - DescHeader: value.KindMap, DescData - DescHeader: value.KindBinary,
}

// SplitMessage finds and checks the sections of an encoded message. They alias payload. Their order
// may differ from §3.2: the Python SDK writes delivery annotations last, and rhea the footer before
// the body. As elements need no memory here, the default limit for elements is the length of
// payload. The error is an *Error with amqp:decode-error.
func SplitMessage(payload []byte, lim value.Limits) (Sections, error) {
	if lim.Elements <= 0 {
		lim.Elements = max(value.DefaultLimits.Elements, len(payload))
	}
	var out Sections
	var body section // the first section of the body
	var seen uint16  // bit n is set if the n-th section of §3.2 was found
	end := 0         // end of the body
	for b := payload; len(b) > 0; {
		s, rest, err := cutSection(b, lim)
		if err != nil {
			return Sections{}, err
		}
		known, ofBody := s.is()
		if !known {
			return Sections{}, refuse(CondDecodeError, "%s is not a message section", s.desc)
		}
		if err := s.checkKind(ofBody); err != nil {
			return Sections{}, err
		}
		bit := uint16(1) << (s.desc - DescHeader)
		from, to := len(payload)-len(b), len(payload)-len(rest)
		switch {
		case !ofBody && seen&bit != 0:
			return Sections{}, refuse(CondDecodeError, "the section %s appears twice", s.desc)
		case !ofBody:
			out.set(s)
		case out.BodyKind == BodyNone:
			body, end = s, to
			out.setBody(s)
		case s.desc == DescValue || s.desc != body.desc || from != end:
			return Sections{}, refuse(CondDecodeError, "the section %s does not belong to the body that began with %s", s.desc, body.desc)
		default:
			if out.BodyKind == BodyData {
				out.BodyKind = BodyDataSections
			}
			start := from - len(body.raw)
			body.raw, end = payload[start:to:to], to
			out.Body = body.raw
		}
		seen |= bit
		b = rest
	}
	return out, nil
}

// SplitHead finds the sections before the body in b, the beginning of an encoded message.
func SplitHead(b []byte) (out Sections) {
	for len(b) > 0 {
		s, rest, err := cutSection(b, value.Limits{})
		if err != nil {
			break
		}
		if known, ofBody := s.is(); !known || ofBody || s.checkKind(false) != nil {
			break
		}
		out.set(s)
		b = rest
	}
	return out
}

// MessageSize returns the sum of the sizes of the sections that begin in b, the beginning of a
// message: a lower bound of the message's size in bytes.
func MessageSize(b []byte) int {
	size := 0
	for size < len(b) {
		n, ok := value.Extent(b[size:])
		if !ok {
			break
		}
		size += n
	}
	return max(size, len(b))
}

func (s section) checkKind(ofBody bool) error {
	want, got := sectionKinds[s.desc-DescHeader], value.KindOf(s.enc)
	if want == value.KindInvalid || got == want || got == value.KindNull && !ofBody {
		return nil
	}
	return refuse(CondDecodeError, "the section %s is a %s, not a %s", s.desc, got, want)
}

func (out *Sections) set(s section) {
	if value.IsNull(s.enc) {
		return
	}
	switch s.desc {
	case DescHeader:
		out.Header = s.enc
	case DescDeliveryAnnotations:
		out.DeliveryAnnotations = s.enc
	case DescMessageAnnotations:
		out.MessageAnnotations = s.enc
	case DescProperties:
		out.Properties = s.enc
	case DescApplicationProperties:
		out.ApplicationProperties = s.enc
	case DescFooter:
		out.Footer = s.enc
	}
}

func (out *Sections) setBody(s section) {
	switch s.desc {
	case DescData:
		out.BodyKind = BodyData
		out.Body, _, _ = value.ReadBinary(s.enc) // cutSection has checked it
	case DescSequence:
		out.BodyKind, out.Body = BodySequence, s.raw
	case DescValue:
		out.BodyKind, out.Body = BodyValue, s.raw
	}
}

func (s *Sections) Value() ([]byte, bool) {
	if s.BodyKind != BodyValue {
		return nil, false
	}
	_, enc, err := readDescriptor(s.Body)
	return enc, err == nil
}

// CountBatch estimates how many messages a batch has, at least 1. It does not check the batch, so
// that the gateway can refuse a batch at little cost.
func CountBatch(payload []byte) (n int) {
	for len(payload) > 0 {
		size, ok := value.Extent(payload)
		if !ok || size > len(payload) {
			break
		}
		payload = payload[size:]
		n++
	}
	return max(n, 1)
}

// SplitBatch returns the contents of a batch's data sections, which alias payload, and ignores the
// other sections. It returns an error with amqp:invalid-field if the body is of another kind, or
// the batch has more than maxMessages messages.
func SplitBatch(payload []byte, lim value.Limits, maxMessages int) ([][]byte, error) {
	s, err := SplitMessage(payload, lim)
	if err != nil {
		return nil, err
	}
	if s.BodyKind == BodyData {
		return [][]byte{s.Body}, nil
	}
	if s.BodyKind != BodyDataSections {
		return nil, refuse(CondInvalidField, "a batch has no data sections")
	}
	var messages [][]byte
	for b := s.Body; len(b) > 0; {
		if len(messages) == maxMessages {
			return nil, refuse(CondInvalidField, "a batch has more than %d messages", maxMessages)
		}
		_, enc, err := readDescriptor(b)
		if err != nil {
			return nil, err
		}
		m, rest, err := value.ReadBinary(enc)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
		b = rest
	}
	return messages, nil
}

func AppendSection(dst []byte, d Descriptor, raw []byte) []byte {
	return append(value.AppendDescriptor(dst, uint64(d)), raw...)
}

func AppendDataSection(dst, payload []byte) []byte {
	return value.AppendBinary(value.AppendDescriptor(dst, uint64(DescData)), payload)
}

// AppendDataHead appends the beginning of a data section, which n bytes must follow.
func AppendDataHead(dst []byte, n int) []byte {
	return value.AppendBinaryHead(value.AppendDescriptor(dst, uint64(DescData)), n)
}

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
