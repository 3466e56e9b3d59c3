package amqp

import (
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Senders set the first three of these message annotations, and the broker the others. If a sender
// sends a received message again, the broker's annotations are dropped.
const (
	annPartitionKey    = "x-opt-partition-key"
	annViaPartitionKey = "x-opt-via-partition-key"
	annScheduled       = "x-opt-scheduled-enqueue-time"

	annEnqueuedTime     = "x-opt-enqueued-time"
	annSequenceNumber   = "x-opt-sequence-number"
	annEnqueuedSequence = "x-opt-enqueue-sequence-number"
	annLockedUntil      = "x-opt-locked-until"
	annLockToken        = "x-opt-lock-token" // a delivery annotation
	annPartitionID      = "x-opt-partition-id"
	annMessageState     = "x-opt-message-state"
	annDeadLetterSource = "x-opt-deadletter-source"
)

// maxBatch bounds the number of messages of a batch. A batch of maxBatchSize bytes, the limit that
// linkProperties tells clients, has about 90,000 of the smallest messages.
const maxBatch = 100_000

// decodeMessage returns a message that shares payload's memory.
func decodeMessage(payload []byte) (*core.Message, error) {
	s, err := wire.SplitMessage(payload, value.Limits{})
	if err != nil {
		return nil, err
	}
	h, err := wire.DecodeHeader(s.Header)
	if err != nil {
		return nil, err
	}
	p, err := wire.DecodeProperties(s.Properties)
	if err != nil {
		return nil, err
	}
	m := &core.Message{
		MessageID:        idFromWire(p.MessageID),
		CorrelationID:    idFromWire(p.CorrelationID),
		UserID:           p.UserID,
		To:               p.To,
		Subject:          p.Subject,
		ReplyTo:          p.ReplyTo,
		ContentType:      p.ContentType,
		ContentEncoding:  p.ContentEncoding,
		SessionID:        p.GroupID,
		ReplyToSessionID: p.ReplyToGroupID,
		EmptyText:        core.TextFields(p.Empty), // numbered as in AMQP 1.0 §3.2.4
		GroupSequence:    p.GroupSequence,
		Durable:          h.Durable,
		FirstAcquirer:    h.FirstAcquirer,
		Priority:         h.Priority,
		TimeToLive:       timeToLive(&h, &p),
		Properties:       textProperties(s.ApplicationProperties),
		Body:             core.Body{Kind: bodyKinds[s.BodyKind], Bytes: s.Body},
		Footer:           symbolKeys(s.Footer),

		// A received message that is sent again has a lock token, which is dropped.
		DeliveryAnnotations: annotationsOf(s.DeliveryAnnotations, func(k, _ []byte) bool { return string(k) != annLockToken }),
	}
	if p.CorrelationID == (wire.ID{Kind: value.KindString}) {
		m.EmptyText |= core.FieldCorrelationID
	}
	if p.CreationTime.Set {
		m.CreationTime = instant(p.CreationTime.V)
	}
	if p.AbsoluteExpiryTime.Set {
		m.AbsoluteExpiryTime = instant(p.AbsoluteExpiryTime.V)
	}
	if err := annotate(m, s.MessageAnnotations); err != nil {
		return nil, err
	}
	return m, nil
}

// decodeBatch returns messages that share payload's memory.
func decodeBatch(payload []byte) ([]*core.Message, error) {
	encoded, err := wire.SplitBatch(payload, value.Limits{}, maxBatch)
	if err != nil {
		return nil, err
	}
	group := make([]*core.Message, len(encoded))
	for i, b := range encoded {
		if group[i], err = decodeMessage(b); err != nil {
			return nil, err
		}
	}
	return group, nil
}

// timeToLive returns the message's time to live. The header's field, a uint of milliseconds, ends
// at 49.7 days; for a longer time, clients set the creation and the expiry time.
func timeToLive(h *wire.Header, p *wire.MessageProperties) time.Duration {
	ms := int64(h.TTL.Or(0))
	if ms == math.MaxUint32 && p.AbsoluteExpiryTime.Set {
		created := p.CreationTime.Or(value.TimestampOf(time.Now()))
		ms = max(ms, int64(instantOf(p.AbsoluteExpiryTime.V)-instantOf(created)))
	}
	if ms > int64(core.Forever/time.Millisecond) {
		return core.Forever
	}
	return time.Duration(ms) * time.Millisecond
}

// The first and the last time that every client can represent: the years 1 to 9999.
const (
	firstInstant value.Timestamp = -62135596800000
	lastInstant  value.Timestamp = 253402300799999
)

func instantOf(t value.Timestamp) value.Timestamp { return min(max(t, firstInstant), lastInstant) }

func instant(t value.Timestamp) time.Time { return instantOf(t).Time() }

// textProperties returns encoded without the entries whose keys are not strings.
func textProperties(encoded []byte) core.Properties {
	if encoded == nil {
		return core.Properties{}
	}
	n, _, _, err := value.ReadMap(encoded)
	if err != nil {
		return core.Properties{}
	}
	for range value.MapEntries(encoded) {
		n--
	}
	if n > 0 {
		encoded = value.AppendMapRaw(nil, value.MapEntries(encoded), false)
	}
	return core.RawProperties(encoded)
}

// symbolKeys returns an encoded map of annotations in which all keys are symbols (AMQP 1.0
// §3.2.10). The Java SDK writes strings into the footer, but fails when it reads them.
func symbolKeys(encoded []byte) []byte {
	if encoded == nil {
		return nil
	}
	n, entries, _, err := value.ReadMap(encoded)
	if err != nil {
		return encoded
	}
	for range n {
		k, after, err := value.ReadRaw(entries)
		if err != nil {
			return encoded
		}
		if value.KindOf(k) == value.KindString {
			return value.AppendMapRaw(nil, value.MapEntries(encoded), true)
		}
		if _, entries, err = value.ReadRaw(after); err != nil {
			return encoded
		}
	}
	return encoded
}

var (
	bodyKinds = [...]core.BodyKind{
		wire.BodyNone: core.BodyNone, wire.BodyData: core.BodyData, wire.BodyDataSections: core.BodyDataSections,
		wire.BodyValue: core.BodyValue, wire.BodySequence: core.BodySequence,
	}
	idKinds = [...]value.Kind{
		core.IDString: value.KindString, core.IDULong: value.KindUint64, core.IDUUID: value.KindUUID, core.IDBinary: value.KindBinary,
	}
)

func idFromWire(id wire.ID) core.ID {
	if kind := slices.Index(idKinds[:], id.Kind); kind >= 0 {
		return core.RawID(core.IDKind(kind), id.Raw)
	}
	return core.ID{}
}

// annotationsOf returns the entries that keep accepts, with symbols as keys.
func annotationsOf(encoded []byte, keep func(k, raw []byte) bool) core.Properties {
	if encoded == nil {
		return core.Properties{}
	}
	var a annotations
	for k, raw := range value.MapEntries(encoded) {
		if !keep(k, raw) {
			continue
		}
		if a.n == 0 {
			a.dst, a.mark = value.OpenMap(make([]byte, 0, len(encoded)))
		}
		a.entry(k, raw)
	}
	if a.n == 0 {
		return core.Properties{}
	}
	return core.RawProperties(a.close())
}

func annotate(m *core.Message, encoded []byte) (err error) {
	m.Annotations = annotationsOf(encoded, func(k, raw []byte) (own bool) {
		if err != nil {
			return false
		}
		switch string(k) {
		case annPartitionKey:
			if m.PartitionKey, err = annotatedText(annPartitionKey, raw); m.PartitionKey == "" && err == nil && !value.IsNull(raw) {
				m.EmptyText |= core.FieldPartitionKey
			}
		case annViaPartitionKey:
			m.ViaPartitionKey, err = annotatedText(annViaPartitionKey, raw)
		case annScheduled:
			m.ScheduledEnqueueTime, err = annotatedInstant(annScheduled, raw)
		case annEnqueuedTime, annSequenceNumber, annEnqueuedSequence, annLockedUntil, annLockToken, annPartitionID,
			annMessageState, annDeadLetterSource:
		default:
			return true
		}
		return false
	})
	return err
}

// annotatedText reads an annotation that is a text: a string, a symbol or binary. The Python SDK
// writes received annotations as binary when it sends them again.
func annotatedText(key string, raw []byte) (string, error) {
	if value.IsNull(raw) {
		return "", nil
	}
	read := value.ReadText
	if value.KindOf(raw) == value.KindBinary {
		read = value.ReadBinary
	}
	v, _, err := read(raw)
	if err != nil || !utf8.Valid(v) {
		return "", core.Refuse(core.InvalidArgument, "The annotation %s is not a string.", key)
	}
	return string(v), nil
}

func annotatedInstant(key string, raw []byte) (time.Time, error) {
	if value.IsNull(raw) {
		return time.Time{}, nil
	}
	v, _, err := value.ReadTimestamp(raw)
	if err != nil {
		return time.Time{}, core.Refuse(core.InvalidArgument, "The annotation %s is not a timestamp.", key)
	}
	return instant(v), nil
}
