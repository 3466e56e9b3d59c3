package journal

import (
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/value"
)

// A head is an encoded message without the bytes of its body. It has: the format's version; the
// kind of the body; where the body is (0: in this record; otherwise how many bytes before this
// record the record with the body begins, and that record's length); the set of the fields that
// follow; and these fields in the order of their bits. Numbers are varints, times are in
// milliseconds.
const headVersion = 1

// Fields in the order of their bits. Add new ones at the end.
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
	fieldTransit      // without Transit.Key
	fieldWasScheduled // has no value
	fieldsEnd
)

func texts(m *core.Message) [9]*string {
	return [...]*string{
		&m.To, &m.Subject, &m.ReplyTo, &m.ContentType, &m.ContentEncoding,
		&m.SessionID, &m.ReplyToSessionID, &m.PartitionKey, &m.ViaPartitionKey,
	}
}

// appendHead appends the head of m. If behind is 0, the body is in m's own record. Otherwise it is
// in the record that begins behind bytes earlier and has that length.
func appendHead(dst []byte, m *core.Message, behind, length uint64) []byte {
	c := coder{buf: dst}
	c.head(m, &behind, &length)
	return c.buf
}

// decodeHead returns a message that shares memory with head. behind and length: see appendHead.
func decodeHead(head []byte) (m *core.Message, behind, length uint64, err error) {
	c := coder{decodes: true, rest: head}
	m = new(core.Message)
	if c.head(m, &behind, &length); c.err == nil && len(c.rest) > 0 {
		c.err = errTrailing
	}
	return m, behind, length, c.err
}

func (c *coder) head(m *core.Message, behind, length *uint64) {
	version := byte(headVersion)
	if c.byte(&version); version != headVersion && c.err == nil {
		c.err = fmt.Errorf("a message has format %d, but this version reads format %d: start the version that wrote the message", version, headVersion)
	}
	c.byte((*byte)(&m.Body.Kind))
	if unsigned(c, behind); *behind > 0 {
		unsigned(c, length)
	}
	fields := fieldsOf(m)
	if unsigned(c, &fields); fields >= fieldsEnd && c.err == nil {
		c.err = errors.New("a message has fields that this version does not know: start the newer version that wrote it")
	}
	if c.err != nil {
		return
	}
	has := func(bit uint64) bool { return fields&bit != 0 }
	if has(fieldMessageID) {
		c.id(&m.MessageID)
	}
	if has(fieldCorrelationID) {
		c.id(&m.CorrelationID)
	}
	if has(fieldUserID) {
		c.bytes(&m.UserID)
	}
	for i, s := range texts(m) {
		if has(fieldTo << i) {
			c.string(s)
		}
	}
	if has(fieldGroupSequence) {
		option(c, &m.GroupSequence, unsigned[uint32])
	}
	if has(fieldCreationTime) {
		c.time(&m.CreationTime)
	}
	if has(fieldAbsoluteExpiryTime) {
		c.time(&m.AbsoluteExpiryTime)
	}
	if has(fieldTimeToLive) {
		signed(c, &m.TimeToLive)
	}
	if has(fieldScheduledTime) {
		c.time(&m.ScheduledEnqueueTime)
	}
	if has(fieldDurable) {
		option(c, &m.Durable, (*coder).bool)
	}
	if has(fieldFirstAcquirer) {
		option(c, &m.FirstAcquirer, (*coder).bool)
	}
	if has(fieldPriority) {
		option(c, &m.Priority, (*coder).byte)
	}
	if has(fieldEmptyText) {
		unsigned(c, &m.EmptyText)
	}
	if has(fieldAnnotations) {
		c.properties(&m.Annotations)
	}
	if has(fieldDeliveryAnnotations) {
		c.properties(&m.DeliveryAnnotations)
	}
	if has(fieldProperties) {
		c.properties(&m.Properties)
	}
	if has(fieldFooter) {
		c.bytes(&m.Footer)
	}
	if has(fieldTransit) {
		if c.decodes {
			m.Transit = new(core.Transit)
		}
		signed(c, &m.Transit.EnqueuedSequenceNumber)
		c.string(&m.Transit.DeadLetterSource)
		c.byte(&m.Transit.Hops)
		c.string(&m.Transit.Destination)
	}
	if c.decodes {
		m.WasScheduled = has(fieldWasScheduled)
	}
}

func option[T any](c *coder, o *value.Opt[T], code func(*coder, *T)) {
	if code(c, &o.V); c.decodes {
		o.Set = true
	}
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

func refusal(err error) error {
	var full *wal.FullError
	var failed *wal.FailedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full):
		return core.Refuse(core.Busy, "The gateway's disk is full: the gateway accepts no messages until space is free. Receive messages, or delete files that do not belong to the gateway.")
	case errors.Is(err, wal.ErrTooLarge):
		return core.Refuse(core.TooLarge, "The messages are larger in total than the store accepts at once: send fewer or smaller messages at a time.")
	case errors.As(err, &failed), errors.Is(err, wal.ErrClosed):
		return fmt.Errorf("file store: %w: %w", core.Busy, err)
	default:
		return fmt.Errorf("file store: %w", err)
	}
}
