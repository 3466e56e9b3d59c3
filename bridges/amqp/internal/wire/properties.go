package wire

import (
	"encoding/binary"

	"github.com/crosstown-mq/crosstown/core/value"
)

// DecodeHeader returns the zero Header for nil.
func DecodeHeader(raw []byte) (Header, error) {
	if raw == nil {
		return Header{}, nil
	}
	f, _ := readFields(raw, DescHeader, value.Limits{})
	h := Header{
		Durable:       field(&f, "durable", value.ReadBool),
		Priority:      field(&f, "priority", value.ReadUint8),
		TTL:           field(&f, "ttl", value.ReadUint32),
		FirstAcquirer: field(&f, "first-acquirer", value.ReadBool),
		DeliveryCount: field(&f, "delivery-count", value.ReadUint32).V,
	}
	if err := f.done(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// AppendHeader also writes a delivery count of 0, because rhea reads an absent count as undefined.
func AppendHeader(dst []byte, h *Header) []byte {
	l := openList(dst, DescHeader)
	putOpt(&l, h.Durable, value.AppendBool)
	putOpt(&l, h.Priority, value.AppendUint8)
	l.uint32(h.TTL)
	putOpt(&l, h.FirstAcquirer, value.AppendBool)
	put(&l, h.DeliveryCount, value.AppendUint32)
	return l.close()
}

// DecodeProperties returns the zero MessageProperties for nil. The strings of the result share one
// copy of raw; UserID aliases raw.
func DecodeProperties(raw []byte) (MessageProperties, error) {
	if raw == nil {
		return MessageProperties{}, nil
	}
	f, rest := readFields(raw, DescProperties, value.Limits{})
	t := texts{fields: f, end: len(raw) - len(rest), all: f.n}
	if t.err == nil {
		t.copy = string(raw[:t.end])
	}
	p := MessageProperties{
		MessageID:          t.id("message-id"),
		UserID:             field(&t.fields, "user-id", value.ReadBinary).V,
		To:                 t.text("to"),
		Subject:            t.text("subject"),
		ReplyTo:            t.text("reply-to"),
		CorrelationID:      t.id("correlation-id"),
		ContentType:        t.text("content-type"),
		ContentEncoding:    t.text("content-encoding"),
		AbsoluteExpiryTime: field(&t.fields, "absolute-expiry-time", value.ReadTimestamp),
		CreationTime:       field(&t.fields, "creation-time", value.ReadTimestamp),
		GroupID:            t.text("group-id"),
		GroupSequence:      field(&t.fields, "group-sequence", value.ReadUint32),
		ReplyToGroupID:     t.text("reply-to-group-id"),
	}
	p.Empty = t.empty
	if err := t.done(); err != nil {
		return MessageProperties{}, err
	}
	return p, nil
}

// texts reads fields as substrings of one copy of the whole list.
type texts struct {
	fields
	copy  string
	end   int    // end of the fields in copy
	all   int    // number of all fields
	empty uint16 // bit n is set if field n is an empty string
}

func (t *texts) last(n int) string {
	at := t.end - len(t.b)
	return t.copy[at-n : at]
}

func (t *texts) text(name string) string {
	v := field(&t.fields, name, value.ReadText)
	if len(v.V) == 0 {
		if v.Set {
			t.empty |= 1 << (t.all - t.n - 1)
		}
		return ""
	}
	return t.last(len(v.V))
}

func (t *texts) id(name string) ID {
	if !t.next() {
		return ID{}
	}
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
		return t.number(name)
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

func (t *texts) number(name string) ID {
	v, rest, err := value.ReadUint64(t.b)
	if err != nil {
		t.fail(name, err)
		return ID{}
	}
	t.b = rest
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], v)
	return ID{Kind: value.KindUint64, Raw: string(raw[:])}
}

func AppendProperties(dst []byte, p *MessageProperties) []byte {
	l := openList(dst, DescProperties)
	l.id(p.MessageID)
	l.binary(p.UserID)
	l.optText(p.To, p.Empty&(1<<2) != 0)
	l.optText(p.Subject, p.Empty&(1<<3) != 0)
	l.optText(p.ReplyTo, p.Empty&(1<<4) != 0)
	l.id(p.CorrelationID)
	l.optSymbol(p.ContentType, p.Empty&(1<<6) != 0)
	l.optSymbol(p.ContentEncoding, p.Empty&(1<<7) != 0)
	putOpt(&l, p.AbsoluteExpiryTime, value.AppendTimestamp)
	putOpt(&l, p.CreationTime, value.AppendTimestamp)
	l.optText(p.GroupID, p.Empty&(1<<10) != 0)
	l.uint32(p.GroupSequence)
	l.optText(p.ReplyToGroupID, p.Empty&(1<<12) != 0)
	return l.close()
}

// id writes a message id, or null if id.Raw does not fit id.Kind.
func (l *list) id(id ID) {
	switch {
	case id.Kind == value.KindString:
		put(l, id.Raw, value.AppendString)
	case id.Kind == value.KindBinary:
		l.n++
		l.dst = value.AppendBinary(l.dst, []byte(id.Raw))
	case id.Kind == value.KindUUID && len(id.Raw) == 16:
		put(l, value.UUID([]byte(id.Raw)), value.AppendUUID)
	case id.Kind == value.KindUint64 && len(id.Raw) == 8:
		put(l, binary.BigEndian.Uint64([]byte(id.Raw)), value.AppendUint64)
	default:
		l.null()
	}
}
