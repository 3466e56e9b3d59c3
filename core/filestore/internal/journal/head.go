package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// A head is a message without the bytes of its body, as a journal keeps it: the format's version,
// the kind of the body, where the body lies if it is that of another record (how many bytes before,
// and that record's length; 0 if it is the record's own), the set of the fields that follow, and
// those fields in the order of their bits. Numbers are varints, times are in milliseconds.
const headVersion = 1

// The fields, in the order of their bits. New ones go last.
const (
	fieldMessageID = 1 << iota
	fieldCorrelationID
	fieldUserID
	fieldTo
	fieldSubject
	fieldReplyTo
	fieldContentType
	fieldContentEncoding
	fieldSessionID
	fieldReplyToSessionID
	fieldPartitionKey
	fieldViaPartitionKey
	fieldGroupSequence
	fieldCreationTime
	fieldAbsoluteExpiryTime
	fieldTimeToLive // in nanoseconds
	fieldScheduledTime
	fieldDurable
	fieldFirstAcquirer
	fieldPriority
	fieldEmptyText
	fieldAnnotations
	fieldDeliveryAnnotations
	fieldProperties
	fieldFooter
	fieldTransit      // without the key
	fieldWasScheduled // nothing follows
	fieldsEnd
)

// texts are the text fields of a message, by the bit of the first.
func texts(m *core.Message) [9]*string {
	return [...]*string{
		&m.To, &m.Subject, &m.ReplyTo, &m.ContentType, &m.ContentEncoding,
		&m.SessionID, &m.ReplyToSessionID, &m.PartitionKey, &m.ViaPartitionKey,
	}
}

// appendHead encodes m without its body, which is that of a record which begins so many bytes
// before and has a length, or its own.
func appendHead(dst []byte, m *core.Message, behind, length uint64) []byte {
	fields := fieldsOf(m)
	dst = append(dst, headVersion, byte(m.Body.Kind))
	dst = binary.AppendUvarint(dst, behind)
	if behind > 0 {
		dst = binary.AppendUvarint(dst, length)
	}
	dst = binary.AppendUvarint(dst, fields)
	if fields&fieldMessageID != 0 {
		dst = appendID(dst, m.MessageID)
	}
	if fields&fieldCorrelationID != 0 {
		dst = appendID(dst, m.CorrelationID)
	}
	if fields&fieldUserID != 0 {
		dst = appendBytes(dst, m.UserID)
	}
	for _, s := range texts(m) {
		if *s != "" {
			dst = appendString(dst, *s)
		}
	}
	if fields&fieldGroupSequence != 0 {
		dst = binary.AppendUvarint(dst, uint64(m.GroupSequence.V))
	}
	if fields&fieldCreationTime != 0 {
		dst = binary.AppendVarint(dst, m.CreationTime.UnixMilli())
	}
	if fields&fieldAbsoluteExpiryTime != 0 {
		dst = binary.AppendVarint(dst, m.AbsoluteExpiryTime.UnixMilli())
	}
	if fields&fieldTimeToLive != 0 {
		dst = binary.AppendVarint(dst, int64(m.TimeToLive))
	}
	if fields&fieldScheduledTime != 0 {
		dst = binary.AppendVarint(dst, m.ScheduledEnqueueTime.UnixMilli())
	}
	if fields&fieldDurable != 0 {
		dst = appendBool(dst, m.Durable.V)
	}
	if fields&fieldFirstAcquirer != 0 {
		dst = appendBool(dst, m.FirstAcquirer.V)
	}
	if fields&fieldPriority != 0 {
		dst = append(dst, m.Priority.V)
	}
	if fields&fieldEmptyText != 0 {
		dst = binary.AppendUvarint(dst, uint64(m.EmptyText))
	}
	if fields&fieldAnnotations != 0 {
		dst = appendBytes(dst, m.Annotations.Encoded())
	}
	if fields&fieldDeliveryAnnotations != 0 {
		dst = appendBytes(dst, m.DeliveryAnnotations.Encoded())
	}
	if fields&fieldProperties != 0 {
		dst = appendBytes(dst, m.Properties.Encoded())
	}
	if fields&fieldFooter != 0 {
		dst = appendBytes(dst, m.Footer)
	}
	if t := m.Transit; t != nil {
		dst = binary.AppendVarint(dst, t.EnqueuedSequenceNumber)
		dst = appendString(dst, t.DeadLetterSource)
		dst = append(dst, t.Hops)
		dst = appendString(dst, t.Destination)
	}
	return dst
}

func fieldsOf(m *core.Message) (fields uint64) {
	has := func(bit uint64, present bool) {
		if present {
			fields |= bit
		}
	}
	has(fieldMessageID, !m.MessageID.IsZero())
	has(fieldCorrelationID, !m.CorrelationID.IsZero())
	has(fieldUserID, m.UserID != nil)
	for i, s := range texts(m) {
		has(fieldTo<<i, *s != "")
	}
	has(fieldGroupSequence, m.GroupSequence.Set)
	has(fieldCreationTime, !m.CreationTime.IsZero())
	has(fieldAbsoluteExpiryTime, !m.AbsoluteExpiryTime.IsZero())
	has(fieldTimeToLive, m.TimeToLive != 0)
	has(fieldScheduledTime, !m.ScheduledEnqueueTime.IsZero())
	has(fieldDurable, m.Durable.Set)
	has(fieldFirstAcquirer, m.FirstAcquirer.Set)
	has(fieldPriority, m.Priority.Set)
	has(fieldEmptyText, m.EmptyText != 0)
	has(fieldAnnotations, !m.Annotations.IsEmpty())
	has(fieldDeliveryAnnotations, !m.DeliveryAnnotations.IsEmpty())
	has(fieldProperties, !m.Properties.IsEmpty())
	has(fieldFooter, m.Footer != nil)
	has(fieldTransit, m.Transit != nil)
	has(fieldWasScheduled, m.WasScheduled)
	return fields
}

// decodeHead makes a message of its head, which it aliases. behind and length say where its body is.
func decodeHead(head []byte) (m *core.Message, behind, length uint64, err error) {
	r := reader{rest: head}
	if v := r.byte(); v != headVersion && r.err == nil {
		return nil, 0, 0, fmt.Errorf("a message has format %d: this version reads format %d", v, headVersion)
	}
	m = new(core.Message)
	m.Body.Kind = core.BodyKind(r.byte())
	if behind = r.uint(); behind > 0 {
		length = r.uint()
	}
	fields := r.uint()
	if fields >= fieldsEnd {
		return nil, 0, 0, errors.New("a message has fields that this version does not know")
	}
	has := func(bit uint64) bool { return fields&bit != 0 }
	if has(fieldMessageID) {
		m.MessageID = r.id()
	}
	if has(fieldCorrelationID) {
		m.CorrelationID = r.id()
	}
	if has(fieldUserID) {
		m.UserID = r.bytes()
	}
	for i, s := range texts(m) {
		if has(fieldTo << i) {
			*s = r.string()
		}
	}
	if has(fieldGroupSequence) {
		m.GroupSequence = value.Some(uint32(r.uint()))
	}
	if has(fieldCreationTime) {
		m.CreationTime = r.time()
	}
	if has(fieldAbsoluteExpiryTime) {
		m.AbsoluteExpiryTime = r.time()
	}
	if has(fieldTimeToLive) {
		m.TimeToLive = time.Duration(r.int())
	}
	if has(fieldScheduledTime) {
		m.ScheduledEnqueueTime = r.time()
	}
	if has(fieldDurable) {
		m.Durable = value.Some(r.bool())
	}
	if has(fieldFirstAcquirer) {
		m.FirstAcquirer = value.Some(r.bool())
	}
	if has(fieldPriority) {
		m.Priority = value.Some(r.byte())
	}
	if has(fieldEmptyText) {
		m.EmptyText = core.TextFields(r.uint())
	}
	if has(fieldAnnotations) {
		m.Annotations = core.RawProperties(r.bytes())
	}
	if has(fieldDeliveryAnnotations) {
		m.DeliveryAnnotations = core.RawProperties(r.bytes())
	}
	if has(fieldProperties) {
		m.Properties = core.RawProperties(r.bytes())
	}
	if has(fieldFooter) {
		m.Footer = r.bytes()
	}
	if has(fieldTransit) {
		m.Transit = &core.Transit{EnqueuedSequenceNumber: r.int(), DeadLetterSource: r.string(), Hops: r.byte(), Destination: r.string()}
	}
	m.WasScheduled = has(fieldWasScheduled)
	if r.err == nil && len(r.rest) > 0 {
		r.err = errTrailing
	}
	return m, behind, length, r.err
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendID(dst []byte, id core.ID) []byte {
	return appendString(append(dst, byte(id.Kind())), id.Raw())
}

var (
	errShort    = errors.New("what the journal keeps of the store ends early")
	errTrailing = errors.New("what the journal keeps of the store has bytes that this version does not know")
)

// reader reads what the append functions write. After an error it reads zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errShort
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) bool() bool { return r.byte() != 0 }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) fixed64() uint64 {
	if len(r.rest) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// bytes returns a slice of what is read, nil never.
func (r *reader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return []byte{}
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) id() core.ID {
	kind := core.IDKind(r.byte())
	return core.RawID(kind, r.string())
}

func (r *reader) time() time.Time { return time.UnixMilli(r.int()).UTC() }
