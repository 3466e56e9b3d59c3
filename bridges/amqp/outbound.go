package amqp

import (
	"math"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// form says how much of a delivery is encoded.
type form uint8

const (
	delivered form = iota // all of it
	bodiless              // a client that peeks may want no body
)

// appendDelivery appends a delivery as an encoded message. Header and properties are always there, because clients read
// other sections only beside them.
func appendDelivery(dst []byte, d *core.Delivery, f form) []byte {
	dst = appendHeader(dst, d)
	dst = appendDeliveryAnnotations(dst, d)
	dst = appendAnnotations(dst, d)
	dst = appendProperties(dst, d)
	if !d.Properties.IsEmpty() {
		dst = wire.AppendSection(dst, wire.DescApplicationProperties, d.Properties.Encoded())
	}
	switch {
	case f == bodiless:
		dst = wire.AppendDataSection(dst, nil)
	case d.Body.Kind == core.BodyData:
		dst = wire.AppendDataSection(dst, d.Body.Bytes)
	default:
		dst = append(dst, d.Body.Bytes...)
	}
	if d.Footer != nil {
		dst = wire.AppendSection(dst, wire.DescFooter, d.Footer)
	}
	return dst
}

// appendDeliveryAnnotations appends the sender's delivery annotations and the lock token, if there are any.
func appendDeliveryAnnotations(dst []byte, d *core.Delivery) []byte {
	if d.LockToken.IsZero() && d.DeliveryAnnotations.IsEmpty() {
		return dst
	}
	dst = value.AppendDescriptor(dst, uint64(wire.DescDeliveryAnnotations))
	a := annotations{}
	a.dst, a.mark = value.OpenMap(dst)
	a.all(d.DeliveryAnnotations)
	if !d.LockToken.IsZero() {
		a.key(annLockToken)
		a.dst = value.AppendUUID(a.dst, value.UUID(d.LockToken))
	}
	return value.CloseMap(a.dst, a.mark, a.n)
}

func appendHeader(dst []byte, d *core.Delivery) []byte {
	h := wire.Header{Durable: d.Durable, Priority: d.Priority, DeliveryCount: d.DeliveryCount}
	if d.TimeToLive > 0 && d.TimeToLive != core.Forever {
		h.TTL = value.Some(uint32(min(d.TimeToLive.Milliseconds(), math.MaxUint32)))
	}
	return wire.AppendHeader(dst, &h)
}

// appendAnnotations appends the message annotations: the sender's, and the broker's. The types of the latter are those
// that clients cast to.
func appendAnnotations(dst []byte, d *core.Delivery) []byte {
	dst = value.AppendDescriptor(dst, uint64(wire.DescMessageAnnotations))
	a := annotations{}
	a.dst, a.mark = value.OpenMap(dst)
	a.all(d.Annotations)
	a.text(annPartitionKey, d.PartitionKey)
	a.text(annViaPartitionKey, d.ViaPartitionKey)
	a.instant(annScheduled, d.ScheduledEnqueueTime)
	a.key(annEnqueuedTime)
	a.dst = value.AppendTimestamp(a.dst, value.TimestampOf(d.EnqueuedTime))
	a.key(annSequenceNumber)
	a.dst = value.AppendInt64(a.dst, d.SequenceNumber)
	if d.EnqueuedSequenceNumber != d.SequenceNumber || d.Transit != nil { // it came from another entity
		a.key(annEnqueuedSequence)
		a.dst = value.AppendInt64(a.dst, d.EnqueuedSequenceNumber)
	}
	a.instant(annLockedUntil, d.LockedUntil)
	if d.Partitioned {
		index, _ := core.SplitSequenceNumber(d.SequenceNumber)
		a.key(annPartitionID)
		a.dst = value.AppendInt16(a.dst, int16(index))
	}
	if d.State != core.Active {
		a.key(annMessageState)
		a.dst = value.AppendInt32(a.dst, int32(d.State))
	}
	a.text(annDeadLetterSource, d.DeadLetterSource)
	return value.CloseMap(a.dst, a.mark, a.n)
}

// annotations is a map under construction.
type annotations struct {
	dst  []byte
	mark int
	n    int
}

// all appends annotations of the sender.
func (a *annotations) all(p core.Properties) {
	if p.IsEmpty() {
		return
	}
	for k, raw := range value.MapEntries(p.Encoded()) {
		a.dst = append(value.AppendSymbol(a.dst, k), raw...)
		a.n++
	}
}

func (a *annotations) key(k string) {
	a.dst = value.AppendSymbol(a.dst, k)
	a.n++
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

func appendProperties(dst []byte, d *core.Delivery) []byte {
	p := wire.MessageProperties{
		MessageID:       idToWire(d.MessageID),
		UserID:          d.UserID,
		To:              d.To,
		Subject:         d.Subject,
		ReplyTo:         d.ReplyTo,
		CorrelationID:   idToWire(d.CorrelationID),
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		GroupID:         d.SessionID,
		GroupSequence:   d.GroupSequence,
		ReplyToGroupID:  d.ReplyToSessionID,
	}
	if !d.ExpiresAt.IsZero() {
		p.AbsoluteExpiryTime = value.Some(value.TimestampOf(d.ExpiresAt))
	}
	if !d.CreationTime.IsZero() {
		p.CreationTime = value.Some(value.TimestampOf(d.CreationTime))
	}
	return wire.AppendProperties(dst, &p)
}

func idToWire(id core.ID) wire.ID {
	if id.IsZero() {
		return wire.ID{}
	}
	switch id.Kind() {
	case core.IDULong:
		return wire.ID{Kind: value.KindUint64, Raw: id.Raw()}
	case core.IDUUID:
		return wire.ID{Kind: value.KindUUID, Raw: id.Raw()}
	case core.IDBinary:
		return wire.ID{Kind: value.KindBinary, Raw: id.Raw()}
	default:
		return wire.ID{Kind: value.KindString, Raw: id.Raw()}
	}
}
