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
	if !c.decodes {
		c.fields, c.collects = 0, true
		c.each(m)
		c.collects = false
	}
	if unsigned(c, &c.fields); c.err != nil {
		return
	}
	if c.each(m); c.fields >= c.next {
		c.err = errors.New("a message has fields that this version does not know: start the newer version that wrote it")
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

// each encodes or decodes the fields in the order of their bits. Add new fields at the end.
func (c *coder) each(m *core.Message) {
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
	option(c, &m.GroupSequence, unsigned)
	c.optionalTime(&m.CreationTime)
	c.optionalTime(&m.AbsoluteExpiryTime)
	if c.has(m.TimeToLive != 0) {
		signed(c, &m.TimeToLive) // in nanoseconds
	}
	c.optionalTime(&m.ScheduledEnqueueTime)
	option(c, &m.Durable, (*coder).bool)
	option(c, &m.FirstAcquirer, (*coder).bool)
	option(c, &m.Priority, (*coder).byte)
	if c.has(m.EmptyText != 0) {
		unsigned(c, &m.EmptyText)
	}
	for _, p := range [...]*core.Properties{&m.Annotations, &m.DeliveryAnnotations, &m.Properties} {
		if c.has(!p.IsEmpty()) {
			c.properties(p)
		}
	}
	if c.has(m.Footer != nil) {
		c.bytes(&m.Footer)
	}
	if c.has(m.Transit != nil) { // without Transit.Key
		if c.decodes {
			m.Transit = new(core.Transit)
		}
		signed(c, &m.Transit.EnqueuedSequenceNumber)
		c.string(&m.Transit.DeadLetterSource)
		c.byte(&m.Transit.Hops)
		c.string(&m.Transit.Destination)
	}
	if c.has(m.WasScheduled) && c.decodes {
		m.WasScheduled = true
	}
}

func option[T any](c *coder, o *value.Opt[T], code func(*coder, *T)) {
	if c.has(o.Set) {
		if code(c, &o.V); c.decodes {
			o.Set = true
		}
	}
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
		return fmt.Errorf("cannot write to the file store: %w: %w", core.Busy, err)
	default:
		return fmt.Errorf("cannot write to the file store: %w", err)
	}
}
