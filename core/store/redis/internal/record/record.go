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
// fields, these fields in the order of their bits, and the kind and the bytes of the body.
const recordVersion = 1

// coder encodes or decodes. After an error, it does nothing. Strings and bytes that it decodes
// share the record's memory.
type coder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder

	src    strings.Reader
	dec    *msgpack.Decoder
	record string

	decodes  bool
	collects bool   // only collect in fields which fields are present; encode nothing yet
	fields   uint64 // the bit set
	next     uint64 // the bit of the next call of has
	err      error
}

var coders = sync.Pool{New: func() any {
	c := &coder{dec: msgpack.NewDecoder(nil)}
	c.enc = msgpack.NewEncoder(&c.buf)
	return c
}}

const maxKept = 64 << 10

// enqueued is in ms.
func Encode(m *core.Message, enqueued int64) ([]byte, error) { return record(m, enqueued, false) }

func EncodeBodiless(m *core.Message, enqueued int64) ([]byte, error) {
	return record(m, enqueued, true)
}

func record(m *core.Message, enqueued int64, bodiless bool) ([]byte, error) {
	c := coders.Get().(*coder)
	c.buf.Reset()
	c.decodes, c.fields, c.err = false, 0, nil
	c.collects = true
	c.each(m, &bodiless)
	c.collects = false
	c.message(m, &enqueued, &bodiless)
	head, err := c.buf.Bytes(), c.err
	body := m.Body.Bytes
	if bodiless {
		body = nil
	}
	var record strings.Builder // unlike make, it does not clear its memory first
	record.Grow(len(head) + len(body))
	record.Write(head)
	record.Write(body) // the only copy of the body
	if c.buf.Cap() <= maxKept {
		coders.Put(c)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode a record: %w", err)
	}
	return View(record.String()), nil
}

var errRecord = errors.New("the record is not a valid message")

// The message shares the record's memory. bodiless is true if the body is stored elsewhere.
func decodeRecord(record string) (m *core.Message, enqueued int64, bodiless bool, err error) {
	c := coders.Get().(*coder)
	c.src.Reset(record)
	c.dec.ResetReader(&c.src)
	c.record, c.decodes, c.err = record, true, nil
	m = new(core.Message)
	if c.message(m, &enqueued, &bodiless); c.err == nil && c.src.Len() > 0 {
		c.err = errRecord
	}
	err = c.err
	c.src.Reset("")
	c.record = ""
	coders.Put(c)
	if err != nil {
		return nil, 0, false, fmt.Errorf("cannot decode a record: %w", err)
	}
	return m, enqueued, bodiless, nil
}

// message encodes the length of the body's bytes, but not these bytes.
func (c *coder) message(m *core.Message, enqueued *int64, bodiless *bool) {
	version := recordVersion
	if unsigned(c, &version); c.err == nil && version != recordVersion {
		c.err = fmt.Errorf("the record has version %d, which this gateway does not know: start the newer version that wrote the record", version)
	}
	c.int(enqueued)
	unsigned(c, &c.fields)
	if c.each(m, bodiless); c.err == nil && c.fields >= c.next {
		c.err = errRecord
	}
	unsigned(c, &m.Body.Kind)
	switch {
	case *bodiless || c.err != nil:
	case c.decodes:
		c.bytes(&m.Body.Bytes)
	case m.Body.Bytes == nil:
		c.err = c.enc.EncodeNil()
	default:
		c.err = c.enc.EncodeBytesLen(len(m.Body.Bytes))
	}
}

// has reports whether to encode or decode the next optional field. present says that an encoded
// message has the field. While c.collects is set, has only notes this.
func (c *coder) has(present bool) bool {
	bit := c.next
	c.next <<= 1
	if c.collects && present {
		c.fields |= bit
	}
	return !c.collects && c.fields&bit != 0
}

// flag is a field without a value, which decoding sets to v.
func flag[T comparable](c *coder, field *T, v T) {
	if c.has(*field == v) && c.decodes {
		*field = v
	}
}

// each encodes or decodes the fields in the order of their bits. Add new fields at the end.
func (c *coder) each(m *core.Message, bodiless *bool) {
	c.next = 1
	for _, id := range [...]*core.ID{&m.MessageID, &m.CorrelationID} {
		if c.has(!id.IsZero()) {
			c.id(id)
		}
	}
	if c.has(m.UserID != nil) {
		c.bytes(&m.UserID)
	}
	for _, s := range [...]*string{
		&m.To, &m.Subject, &m.ReplyTo, &m.ContentType, &m.ContentEncoding,
		&m.SessionID, &m.ReplyToSessionID, &m.PartitionKey, &m.ViaPartitionKey,
	} {
		if c.has(*s != "") {
			c.string(s)
		}
	}
	if c.has(m.GroupSequence.Set) {
		option(c, &m.GroupSequence)
	}
	c.optionalTime(&m.CreationTime)
	c.optionalTime(&m.AbsoluteExpiryTime)
	if c.has(m.TimeToLive != 0) {
		c.int((*int64)(&m.TimeToLive))
	}
	c.optionalTime(&m.ScheduledEnqueueTime)
	flag(c, &m.Durable, value.Some(true))
	if c.has(m.Priority.Set) {
		option(c, &m.Priority)
	}
	c.properties(&m.Annotations)
	c.properties(&m.Properties)
	if c.has(m.Footer != nil) {
		c.bytes(&m.Footer)
	}
	if c.has(m.Transit != nil) {
		c.transit(m)
	}
	flag(c, bodiless, true) // the body is stored elsewhere
	c.properties(&m.DeliveryAnnotations)
	if c.has(m.EmptyText != 0) {
		unsigned(c, &m.EmptyText)
	}
	flag(c, &m.FirstAcquirer, value.Some(true))
	flag(c, &m.FirstAcquirer, value.Some(false))
	flag(c, &m.Durable, value.Some(false))
	flag(c, &m.WasScheduled, true)
}

func (c *coder) transit(m *core.Message) {
	if c.decodes {
		m.Transit = new(core.Transit)
	}
	c.int(&m.Transit.EnqueuedSequenceNumber)
	c.string(&m.Transit.DeadLetterSource)
	unsigned(c, &m.Transit.Hops)
	c.string(&m.Transit.Destination)
}

func unsigned[T ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, v *T) {
	switch n := uint64(0); {
	case c.err != nil:
	case c.decodes:
		n, c.err = c.dec.DecodeUint64()
		*v = T(n)
	default:
		c.err = c.enc.EncodeUint(uint64(*v))
	}
}

func option[T ~uint8 | ~uint32](c *coder, o *value.Opt[T]) {
	if unsigned(c, &o.V); c.decodes {
		o.Set = true
	}
}

func (c *coder) int(v *int64) {
	switch {
	case c.err != nil:
	case c.decodes:
		*v, c.err = c.dec.DecodeInt64()
	default:
		c.err = c.enc.EncodeInt(*v)
	}
}

// optionalTime codes the time in ms.
func (c *coder) optionalTime(v *time.Time) {
	if c.has(!v.IsZero()) {
		millis := v.UnixMilli()
		if c.int(&millis); c.decodes {
			*v = time.UnixMilli(millis).UTC()
		}
	}
}

func (c *coder) id(v *core.ID) {
	kind, raw := v.Kind(), v.Raw()
	unsigned(c, &kind)
	if c.string(&raw); c.decodes {
		*v = core.RawID(kind, raw)
	}
}

// span decodes a string or bytes. ok is false for nil, and after an error.
func (c *coder) span() (s string, ok bool) {
	n, err := c.dec.DecodeBytesLen()
	switch {
	case err != nil:
		c.err = err
		return "", false
	case n < 0:
		return "", false
	case n > c.src.Len():
		c.err = io.ErrUnexpectedEOF
		return "", false
	}
	start := len(c.record) - c.src.Len()
	if _, err := c.src.Seek(int64(n), io.SeekCurrent); err != nil {
		c.err = err
		return "", false
	}
	return c.record[start : start+n], true
}

func (c *coder) string(v *string) {
	switch {
	case c.err != nil:
	case c.decodes:
		*v, _ = c.span()
	default:
		c.err = c.enc.EncodeString(*v)
	}
}

func (c *coder) bytes(v *[]byte) {
	switch {
	case c.err != nil:
	case !c.decodes:
		c.err = c.enc.EncodeBytes(*v)
	default:
		if s, ok := c.span(); ok && s == "" {
			*v = []byte{}
		} else if ok {
			*v = View(s)
		}
	}
}

func (c *coder) properties(v *core.Properties) {
	if c.has(!v.IsEmpty()) {
		b := v.Encoded()
		if c.bytes(&b); c.decodes {
			*v = core.RawProperties(b)
		}
	}
}

// The bytes must not be changed.
func View(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
