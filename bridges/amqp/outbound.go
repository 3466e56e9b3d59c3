package amqp

import (
	"math"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type form struct {
	peeked    bool // the client reads the message without receiving it
	bodiless  bool // the client has requested no body
	inSession bool // the session's lock also locks the message
}

// greatestDate, in the year 10000, is the end of lock of a session's messages: they are locked as
// long as their session, and SDKs refuse to settle a message whose lock seems to have ended.
const greatestDate value.Timestamp = 253402300800000

func appendDelivery(dst []byte, d *core.Delivery, f form) []byte {
	dst = appendHead(dst, d, f)
	if !f.bodiless {
		dst = appendBody(dst, d.Body)
	}
	return appendFooter(dst, d.Message)
}

// largeBody is the size in bytes from which a body is sent over plain TCP without a copy.
const largeBody = 16 << 10

// payloadOf encodes a delivery, except for a large body, into scratch, which it returns.
func payloadOf(scratch []byte, d *core.Delivery, f form) (engine.Payload, []byte) {
	if len(d.Body.Bytes) < largeBody {
		scratch = appendDelivery(scratch[:0], d, f)
		return engine.Payload{Copied: scratch}, scratch
	}
	scratch = appendHead(scratch[:0], d, f)
	if d.Body.Kind == core.BodyData {
		scratch = wire.AppendDataHead(scratch, len(d.Body.Bytes))
	}
	return engine.Payload{Copied: scratch, Body: d.Body.Bytes, Tail: appendFooter(nil, d.Message)}, scratch
}

// appendHead appends the sections before the body, always with header and properties, because some
// clients read the other sections only if these are present.
func appendHead(dst []byte, d *core.Delivery, f form) []byte {
	dst = wire.AppendHeader(dst, &wire.Header{Durable: d.Durable, Priority: d.Priority, FirstAcquirer: d.FirstAcquirer, TTL: headerTTL(d.Message), DeliveryCount: d.DeliveryCount})
	if !f.peeked || !d.LockToken.IsZero() || !d.DeliveryAnnotations.IsEmpty() {
		dst = appendDeliveryAnnotations(dst, d.DeliveryAnnotations, d.LockToken)
	}
	dst = appendAnnotations(dst, d, f)
	created, expires := lifeOfDelivery(d)
	dst = appendProperties(dst, d.Message, created, expires)
	if !d.Properties.IsEmpty() {
		dst = wire.AppendSection(dst, wire.DescApplicationProperties, d.Properties.Encoded())
	}
	return dst
}

func appendFooter(dst []byte, m *core.Message) []byte {
	if m.Footer != nil {
		dst = wire.AppendSection(dst, wire.DescFooter, m.Footer)
	}
	return dst
}

// appendDeliveryAnnotations also appends an empty section: the Python SDK's tests require it.
func appendDeliveryAnnotations(dst []byte, p core.Properties, lock core.LockToken) []byte {
	a := openAnnotations(dst, wire.DescDeliveryAnnotations, p)
	if !lock.IsZero() {
		a.key(annLockToken)
		a.dst = value.AppendUUID(a.dst, value.UUID(lock))
	}
	return a.close()
}

func headerTTL(m *core.Message) value.Opt[uint32] {
	if !mortal(m) {
		return value.Opt[uint32]{}
	}
	return value.Some(uint32(min(m.TimeToLive.Milliseconds(), math.MaxUint32)))
}

func appendAnnotations(dst []byte, d *core.Delivery, f form) []byte {
	a := openAnnotations(dst, wire.DescMessageAnnotations, d.Annotations)
	a.sent(d.Message)
	a.key(annEnqueuedTime)
	a.dst = value.AppendTimestamp(a.dst, value.TimestampOf(d.EnqueuedTime))
	a.key(annSequenceNumber)
	a.dst = value.AppendInt64(a.dst, d.SequenceNumber)
	a.key(annEnqueuedSequence)
	a.dst = value.AppendInt64(a.dst, d.EnqueuedSequenceNumber)
	switch {
	case d.LockedUntil.IsZero() && f.peeked && d.State == core.Deferred:
		a.instant(annLockedUntil, d.EnqueuedTime)
	case !d.LockedUntil.IsZero() && f.inSession:
		a.key(annLockedUntil)
		a.dst = value.AppendTimestamp(a.dst, greatestDate)
	default:
		a.instant(annLockedUntil, d.LockedUntil)
	}
	if d.Partitioned {
		index, _ := core.SplitSequenceNumber(d.SequenceNumber)
		a.key(annPartitionID)
		a.dst = value.AppendInt16(a.dst, int16(index))
	}
	state := d.State
	if state == core.Active && !f.peeked && d.WasScheduled {
		state = core.Scheduled // as in Service Bus: a due message is Scheduled when it is received, and Active when it is peeked
	}
	if state != core.Active {
		a.key(annMessageState)
		a.dst = value.AppendInt32(a.dst, int32(state))
	}
	a.text(annDeadLetterSource, d.DeadLetterSource)
	return a.close()
}

type annotations struct {
	dst  []byte
	mark int
	n    int
}

// openAnnotations begins a section that contains p.
func openAnnotations(dst []byte, of wire.Descriptor, p core.Properties) (a annotations) {
	a.dst, a.mark = value.OpenMap(value.AppendDescriptor(dst, uint64(of)))
	if !p.IsEmpty() {
		for k, raw := range value.MapEntries(p.Encoded()) {
			a.entry(k, raw)
		}
	}
	return a
}

func (a *annotations) close() []byte { return value.CloseMap(a.dst, a.mark, a.n) }

func (a *annotations) entry(k, raw []byte) {
	a.dst = append(value.AppendSymbol(a.dst, k), raw...)
	a.n++
}

func (a *annotations) key(k string) {
	a.dst = value.AppendSymbol(a.dst, k)
	a.n++
}

// sent appends the annotations that senders set.
func (a *annotations) sent(m *core.Message) {
	if m.Has(core.FieldPartitionKey, m.PartitionKey) {
		a.key(annPartitionKey)
		a.dst = value.AppendString(a.dst, m.PartitionKey)
	}
	a.text(annViaPartitionKey, m.ViaPartitionKey)
	a.instant(annScheduled, m.ScheduledEnqueueTime)
}

func (a *annotations) text(k, v string) {
	if v != "" {
		a.key(k)
		a.dst = value.AppendString(a.dst, v)
	}
}

func (a *annotations) instant(k string, t time.Time) {
	if !t.IsZero() {
		a.key(k)
		a.dst = value.AppendTimestamp(a.dst, value.TimestampOf(t))
	}
}

// lifeOfDelivery is like lifeOf, but the life of a scheduled message begins when it is enqueued,
// whatever its sender says.
func lifeOfDelivery(d *core.Delivery) (created, expires time.Time) {
	if d.ScheduledEnqueueTime.IsZero() || !mortal(d.Message) {
		return lifeOf(d.Message, d.EnqueuedTime)
	}
	if created = d.EnqueuedTime; d.State == core.Scheduled {
		created = d.ScheduledEnqueueTime
	}
	return created, created.Add(d.TimeToLive)
}

func mortal(m *core.Message) bool { return m.TimeToLive > 0 && m.TimeToLive < core.Forever }

// lifeOf returns the creation and the expiry time of a message, because the header's time to live
// cannot exceed 49.7 days. otherwise is the creation time if the sender set none. For a message
// that does not expire, both times are the sender's.
func lifeOf(m *core.Message, otherwise time.Time) (created, expires time.Time) {
	if !mortal(m) {
		return m.CreationTime, m.AbsoluteExpiryTime
	}
	if created = m.CreationTime; created.IsZero() {
		created = otherwise
	}
	return created, created.Add(m.TimeToLive)
}

func appendProperties(dst []byte, m *core.Message, created, expires time.Time) []byte {
	p := wire.MessageProperties{
		Empty:           uint16(m.EmptyText &^ core.FieldPartitionKey),
		MessageID:       idToWire(m.MessageID),
		UserID:          m.UserID,
		To:              m.To,
		Subject:         m.Subject,
		ReplyTo:         m.ReplyTo,
		CorrelationID:   idToWire(m.CorrelationID),
		ContentType:     m.ContentType,
		ContentEncoding: m.ContentEncoding,
		GroupID:         m.SessionID,
		GroupSequence:   m.GroupSequence,
		ReplyToGroupID:  m.ReplyToSessionID,
	}
	if m.CorrelationID.IsZero() && m.EmptyText&core.FieldCorrelationID != 0 {
		p.CorrelationID.Kind = value.KindString
	}
	if !expires.IsZero() {
		p.AbsoluteExpiryTime = value.Some(min(value.TimestampOf(expires), lastInstant))
	}
	if !created.IsZero() {
		p.CreationTime = value.Some(value.TimestampOf(created))
	}
	return wire.AppendProperties(dst, &p)
}

func appendBody(dst []byte, b core.Body) []byte {
	if b.Kind == core.BodyData {
		return wire.AppendDataSection(dst, b.Bytes)
	}
	return append(dst, b.Bytes...) // a message without a body has no bytes
}

func idToWire(id core.ID) wire.ID {
	if id.IsZero() {
		return wire.ID{}
	}
	return wire.ID{Kind: idKinds[id.Kind()], Raw: id.Raw()}
}
