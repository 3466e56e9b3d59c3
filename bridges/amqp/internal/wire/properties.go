package wire

import (
	"encoding/binary"
	"math"

	"github.com/crosstown-mq/crosstown/core/value"
)

// DecodeHeader returns the zero Header for nil.
func DecodeHeader(raw []byte) (h Header, err error) {
	if raw == nil {
		return Header{}, nil
	}
	l, _ := readList(raw, DescHeader, value.Limits{})
	h.fields(&l)
	if err := l.done(); err != nil {
		return Header{}, err
	}
	return h, nil
}

func AppendHeader(dst []byte, h *Header) []byte {
	l := list{writes: true, b: dst}
	l.begin(DescHeader)
	h.fields(&l)
	dst, _ = l.closed() // a header can always be encoded
	return dst
}

func (h *Header) fields(l *list) {
	opt(l, "durable", &h.Durable, asBool)
	opt(l, "priority", &h.Priority, asUint8)
	opt(l, "ttl", &h.TTL, asUint32)
	opt(l, "first-acquirer", &h.FirstAcquirer, asBool)
	count := value.Opt[uint32]{V: h.DeliveryCount, Set: l.writes} // a count of 0 is written, too, because rhea reads an absent count as undefined
	opt(l, "delivery-count", &count, asUint32)
	h.DeliveryCount = count.V
}

// DecodeProperties returns the zero MessageProperties for nil. The strings of the result share one
// copy of raw; UserID aliases raw.
func DecodeProperties(raw []byte) (p MessageProperties, err error) {
	if raw == nil {
		return MessageProperties{}, nil
	}
	l, rest := readList(raw, DescProperties, value.Limits{})
	t := texts{list: l, end: len(raw) - len(rest), all: l.n}
	if t.err == nil {
		t.copy = string(raw[:t.end])
	}
	p.fields(&t)
	if err := t.done(); err != nil {
		return MessageProperties{}, err
	}
	return p, nil
}

func AppendProperties(dst []byte, p *MessageProperties) []byte {
	t := texts{list: list{writes: true, b: dst}}
	t.begin(DescProperties)
	p.fields(&t)
	dst, _ = t.closed() // properties can always be encoded
	return dst
}

func (p *MessageProperties) fields(t *texts) {
	t.empty = p.Empty
	t.id("message-id", &p.MessageID)
	t.binary("user-id", &p.UserID, math.MaxInt)
	t.text("to", &p.To, value.AppendString)
	t.text("subject", &p.Subject, value.AppendString)
	t.text("reply-to", &p.ReplyTo, value.AppendString)
	t.id("correlation-id", &p.CorrelationID)
	t.text("content-type", &p.ContentType, value.AppendSymbol)
	t.text("content-encoding", &p.ContentEncoding, value.AppendSymbol)
	opt(&t.list, "absolute-expiry-time", &p.AbsoluteExpiryTime, asTimestamp)
	opt(&t.list, "creation-time", &p.CreationTime, asTimestamp)
	t.text("group-id", &p.GroupID, value.AppendString)
	opt(&t.list, "group-sequence", &p.GroupSequence, asUint32)
	t.text("reply-to-group-id", &p.ReplyToGroupID, value.AppendString)
	p.Empty = t.empty
}

// texts reads texts as substrings of one copy of the whole list.
type texts struct {
	list
	copy  string
	end   int    // end of the fields in copy
	all   int    // number of all fields that are read
	empty uint16 // bit n is set if field n is an empty string
}

func (t *texts) last(n int) string {
	at := t.end - len(t.b)
	return t.copy[at-n : at]
}

func (t *texts) text(name string, v *string, write func([]byte, string) []byte) {
	if t.writes {
		if *v != "" || t.empty>>t.n&1 != 0 {
			t.wrote(write(t.b, *v))
		} else {
			t.null()
		}
		return
	}
	index := t.all - t.n
	if !t.next() {
		return
	}
	text, rest, err := value.ReadText(t.b)
	if err != nil {
		t.fail(name, err)
		return
	}
	if t.b = rest; len(text) == 0 {
		t.empty |= 1 << index
	} else {
		*v = t.last(len(text))
	}
}

func (t *texts) id(name string, id *ID) {
	switch {
	case t.writes:
		t.writeID(*id)
	case t.next():
		*id = t.readID(name)
	}
}

func (t *texts) readID(name string) ID {
	kind := value.KindOf(t.b)
	var data []byte
	var err error
	switch kind {
	case value.KindString:
		data, t.b, err = value.ReadString(t.b)
	case value.KindBinary:
		data, t.b, err = value.ReadBinary(t.b)
	case value.KindUUID:
		var u value.UUID
		u, t.b, err = value.ReadUUID(t.b)
		data = u[:]
	case value.KindUint64:
		var n uint64
		if n, t.b, err = value.ReadUint64(t.b); err == nil {
			return ID{Kind: kind, Raw: string(binary.BigEndian.AppendUint64(nil, n))}
		}
	default:
		t.invalid(name, "is a %s", kind)
		return ID{}
	}
	if err != nil {
		t.fail(name, err)
		return ID{}
	}
	return ID{Kind: kind, Raw: t.last(len(data))}
}

// writeID writes a message id, or null if id.Raw does not fit id.Kind.
func (t *texts) writeID(id ID) {
	switch {
	case id.Kind == value.KindString:
		t.wrote(value.AppendString(t.b, id.Raw))
	case id.Kind == value.KindBinary:
		t.wrote(value.AppendBinary(t.b, []byte(id.Raw)))
	case id.Kind == value.KindUUID && len(id.Raw) == 16:
		t.wrote(value.AppendUUID(t.b, value.UUID([]byte(id.Raw))))
	case id.Kind == value.KindUint64 && len(id.Raw) == 8:
		t.wrote(value.AppendUint64(t.b, binary.BigEndian.Uint64([]byte(id.Raw))))
	default:
		t.null()
	}
}
