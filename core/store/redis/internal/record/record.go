// Package record encodes messages for the entries of streams, and decodes them.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// A record is a sequence of msgpack values: the version, the enqueued time (ms), a bit set of
// fields, these fields in the order below, and the kind and the bytes of the body.
const recordVersion = 1

// Fields of a record, in order; each is a bit of the bit set. Add new fields at the end.
const (
	fieldMessageID = 1 << iota // kind, then value
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
	fieldCreationTime       // ms
	fieldAbsoluteExpiryTime // ms
	fieldTimeToLive         // ns
	fieldScheduledTime      // ms
	fieldDurable            // a flag only
	fieldPriority
	fieldAnnotations
	fieldProperties
	fieldFooter
	fieldTransit // number, dead-letter source, hops, destination; Transit.Key is not stored
	fieldNoBody  // a flag only: the body is stored elsewhere
	fieldDeliveryAnnotations
	fieldEmptyText     // bit set of text fields that are empty
	fieldFirstAcquirer // a flag only, like the next three
	fieldNotFirstAcquirer
	fieldNotDurable
	fieldWasScheduled
	fieldsEnd
)

type recorder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
	err error
}

var recorders = sync.Pool{New: func() any {
	r := new(recorder)
	r.enc = msgpack.NewEncoder(&r.buf)
	return r
}}

const maxKept = 64 << 10

// enqueued is in ms.
func Encode(m *core.Message, enqueued int64) ([]byte, error) {
	return record(m, enqueued, fieldsOf(m))
}

func EncodeBodiless(m *core.Message, enqueued int64) ([]byte, error) {
	return record(m, enqueued, fieldsOf(m)|fieldNoBody)
}

func record(m *core.Message, enqueued int64, fields uint64) ([]byte, error) {
	r := recorders.Get().(*recorder)
	r.buf.Reset()
	r.err = nil
	r.message(m, enqueued, fields)
	head, err := r.buf.Bytes(), r.err
	body := m.Body.Bytes
	if fields&fieldNoBody != 0 {
		body = nil
	}
	var record strings.Builder // unlike make, it does not clear its memory first
	record.Grow(len(head) + len(body))
	record.Write(head)
	record.Write(body) // the only copy of the body
	if r.buf.Cap() <= maxKept {
		recorders.Put(r)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode a record: %w", err)
	}
	return View(record.String()), nil
}

func (r *recorder) message(m *core.Message, enqueued int64, fields uint64) {
	r.uint(recordVersion)
	r.int(enqueued)
	r.uint(fields)
	r.id(m.MessageID)
	r.id(m.CorrelationID)
	if fields&fieldUserID != 0 {
		r.bytes(m.UserID)
	}
	for _, s := range [...]string{
		m.To, m.Subject, m.ReplyTo, m.ContentType, m.ContentEncoding,
		m.SessionID, m.ReplyToSessionID, m.PartitionKey, m.ViaPartitionKey,
	} {
		if s != "" {
			r.string(s)
		}
	}
	if m.GroupSequence.Set {
		r.uint(uint64(m.GroupSequence.V))
	}
	r.time(m.CreationTime)
	r.time(m.AbsoluteExpiryTime)
	if m.TimeToLive != 0 {
		r.int(int64(m.TimeToLive))
	}
	r.time(m.ScheduledEnqueueTime)
	if m.Priority.Set {
		r.uint(uint64(m.Priority.V))
	}
	if !m.Annotations.IsEmpty() {
		r.bytes(m.Annotations.Encoded())
	}
	if !m.Properties.IsEmpty() {
		r.bytes(m.Properties.Encoded())
	}
	if fields&fieldFooter != 0 {
		r.bytes(m.Footer)
	}
	if t := m.Transit; t != nil {
		r.int(t.EnqueuedSequenceNumber)
		r.string(t.DeadLetterSource)
		r.uint(uint64(t.Hops))
		r.string(t.Destination)
	}
	if fields&fieldDeliveryAnnotations != 0 {
		r.bytes(m.DeliveryAnnotations.Encoded())
	}
	if m.EmptyText != 0 {
		r.uint(uint64(m.EmptyText))
	}
	r.uint(uint64(m.Body.Kind))
	if fields&fieldNoBody == 0 {
		r.bodyHead(m.Body.Bytes)
	}
}

func fieldsOf(m *core.Message) uint64 {
	var fields uint64
	for _, f := range [...]struct {
		bit uint64
		set bool
	}{
		{fieldMessageID, !m.MessageID.IsZero()},
		{fieldCorrelationID, !m.CorrelationID.IsZero()},
		{fieldUserID, m.UserID != nil},
		{fieldTo, m.To != ""},
		{fieldSubject, m.Subject != ""},
		{fieldReplyTo, m.ReplyTo != ""},
		{fieldContentType, m.ContentType != ""},
		{fieldContentEncoding, m.ContentEncoding != ""},
		{fieldSessionID, m.SessionID != ""},
		{fieldReplyToSessionID, m.ReplyToSessionID != ""},
		{fieldPartitionKey, m.PartitionKey != ""},
		{fieldViaPartitionKey, m.ViaPartitionKey != ""},
		{fieldGroupSequence, m.GroupSequence.Set},
		{fieldCreationTime, !m.CreationTime.IsZero()},
		{fieldAbsoluteExpiryTime, !m.AbsoluteExpiryTime.IsZero()},
		{fieldTimeToLive, m.TimeToLive != 0},
		{fieldScheduledTime, !m.ScheduledEnqueueTime.IsZero()},
		{fieldDurable, m.Durable.V},
		{fieldPriority, m.Priority.Set},
		{fieldAnnotations, !m.Annotations.IsEmpty()},
		{fieldProperties, !m.Properties.IsEmpty()},
		{fieldFooter, m.Footer != nil},
		{fieldTransit, m.Transit != nil},
		{fieldDeliveryAnnotations, !m.DeliveryAnnotations.IsEmpty()},
		{fieldEmptyText, m.EmptyText != 0},
		{fieldFirstAcquirer, m.FirstAcquirer.V},
		{fieldNotFirstAcquirer, m.FirstAcquirer == value.Some(false)},
		{fieldNotDurable, m.Durable == value.Some(false)},
		{fieldWasScheduled, m.WasScheduled},
	} {
		if f.set {
			fields |= f.bit
		}
	}
	return fields
}

func (r *recorder) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *recorder) uint(n uint64)   { r.note(r.enc.EncodeUint(n)) }
func (r *recorder) int(n int64)     { r.note(r.enc.EncodeInt(n)) }
func (r *recorder) string(s string) { r.note(r.enc.EncodeString(s)) }
func (r *recorder) bytes(b []byte)  { r.note(r.enc.EncodeBytes(b)) }

func (r *recorder) bodyHead(body []byte) {
	if body == nil {
		r.note(r.enc.EncodeNil())
		return
	}
	r.note(r.enc.EncodeBytesLen(len(body)))
}

func (r *recorder) id(id core.ID) {
	if !id.IsZero() {
		r.uint(uint64(id.Kind()))
		r.string(id.Raw())
	}
}

func (r *recorder) time(t time.Time) {
	if !t.IsZero() {
		r.int(t.UnixMilli())
	}
}

// The strings and bytes that a reader returns share the record's memory.
type reader struct {
	src    strings.Reader
	dec    *msgpack.Decoder
	record string
	err    error
}

var readers = sync.Pool{New: func() any { return &reader{dec: msgpack.NewDecoder(nil)} }}

var errRecord = errors.New("the record is not a valid message")

// The message shares the record's memory. bodiless is true if the body is stored elsewhere.
func decodeRecord(record string) (m *core.Message, enqueued int64, bodiless bool, err error) {
	r := readers.Get().(*reader)
	r.src.Reset(record)
	r.dec.ResetReader(&r.src)
	r.record, r.err = record, nil
	m, enqueued, bodiless = r.message()
	err = r.err
	r.src.Reset("")
	r.record = ""
	readers.Put(r)
	if err != nil {
		return nil, 0, false, fmt.Errorf("cannot decode a record: %w", err)
	}
	return m, enqueued, bodiless, nil
}

func (r *reader) message() (m *core.Message, enqueued int64, bodiless bool) {
	if v := r.uint(); r.err == nil && v != recordVersion {
		r.err = fmt.Errorf("the record has version %d, which this gateway does not know: start the newer version that wrote the record", v)
	}
	enqueued = r.int()
	fields := r.uint()
	if r.err == nil && fields >= fieldsEnd {
		r.err = errRecord
	}
	if r.err != nil {
		return nil, 0, false
	}
	m = new(core.Message)
	for bit := uint64(1); bit <= fields; bit <<= 1 {
		if fields&bit != 0 {
			r.field(m, bit)
		}
	}
	m.Body.Kind = core.BodyKind(r.uint())
	if bodiless = fields&fieldNoBody != 0; !bodiless {
		m.Body.Bytes = r.bytes()
	}
	if r.err == nil && r.src.Len() > 0 {
		r.err = errRecord
	}
	return m, enqueued, bodiless
}

func (r *reader) field(m *core.Message, bit uint64) {
	switch bit {
	case fieldMessageID:
		m.MessageID = r.id()
	case fieldCorrelationID:
		m.CorrelationID = r.id()
	case fieldUserID:
		m.UserID = r.bytes()
	case fieldTo:
		m.To = r.string()
	case fieldSubject:
		m.Subject = r.string()
	case fieldReplyTo:
		m.ReplyTo = r.string()
	case fieldContentType:
		m.ContentType = r.string()
	case fieldContentEncoding:
		m.ContentEncoding = r.string()
	case fieldSessionID:
		m.SessionID = r.string()
	case fieldReplyToSessionID:
		m.ReplyToSessionID = r.string()
	case fieldPartitionKey:
		m.PartitionKey = r.string()
	case fieldViaPartitionKey:
		m.ViaPartitionKey = r.string()
	case fieldGroupSequence:
		m.GroupSequence = value.Some(uint32(r.uint()))
	case fieldCreationTime:
		m.CreationTime = r.time()
	case fieldAbsoluteExpiryTime:
		m.AbsoluteExpiryTime = r.time()
	case fieldTimeToLive:
		m.TimeToLive = time.Duration(r.int())
	case fieldScheduledTime:
		m.ScheduledEnqueueTime = r.time()
	case fieldDurable:
		m.Durable = value.Some(true)
	case fieldPriority:
		m.Priority = value.Some(uint8(r.uint()))
	case fieldAnnotations:
		m.Annotations = core.RawProperties(r.bytes())
	case fieldProperties:
		m.Properties = core.RawProperties(r.bytes())
	case fieldFooter:
		m.Footer = r.bytes()
	case fieldDeliveryAnnotations:
		m.DeliveryAnnotations = core.RawProperties(r.bytes())
	case fieldEmptyText:
		m.EmptyText = core.TextFields(r.uint())
	case fieldFirstAcquirer:
		m.FirstAcquirer = value.Some(true)
	case fieldNotFirstAcquirer:
		m.FirstAcquirer = value.Some(false)
	case fieldNotDurable:
		m.Durable = value.Some(false)
	case fieldWasScheduled:
		m.WasScheduled = true
	case fieldTransit:
		m.Transit = &core.Transit{
			EnqueuedSequenceNumber: r.int(), DeadLetterSource: r.string(), Hops: uint8(r.uint()), Destination: r.string(),
		}
	}
}

func (r *reader) uint() uint64 {
	if r.err != nil {
		return 0
	}
	var n uint64
	n, r.err = r.dec.DecodeUint64()
	return n
}

func (r *reader) int() int64 {
	if r.err != nil {
		return 0
	}
	var n int64
	n, r.err = r.dec.DecodeInt64()
	return n
}

func (r *reader) time() time.Time { return time.UnixMilli(r.int()).UTC() }

func (r *reader) id() core.ID {
	kind := core.IDKind(r.uint())
	return core.RawID(kind, r.string())
}

// span reads a string or bytes. ok is false for nil, and after an error.
func (r *reader) span() (s string, ok bool) {
	if r.err != nil {
		return "", false
	}
	n, err := r.dec.DecodeBytesLen()
	switch {
	case err != nil:
		r.err = err
		return "", false
	case n < 0:
		return "", false
	case n > r.src.Len():
		r.err = io.ErrUnexpectedEOF
		return "", false
	}
	start := len(r.record) - r.src.Len()
	if _, err := r.src.Seek(int64(n), io.SeekCurrent); err != nil {
		r.err = err
		return "", false
	}
	return r.record[start : start+n], true
}

func (r *reader) string() string {
	s, _ := r.span()
	return s
}

func (r *reader) bytes() []byte {
	s, ok := r.span()
	switch {
	case !ok:
		return nil
	case s == "":
		return []byte{}
	}
	return View(s)
}

// The bytes must not be changed.
func View(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
