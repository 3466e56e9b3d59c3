package amqp

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// FormatBatch is the message format of a batch, whose data sections are messages. Service Bus
// stores all of them or none.
const FormatBatch = wire.FormatBatch

func AppendMessage(dst []byte, m *core.Message) []byte {
	dst = wire.AppendHeader(dst, &wire.Header{Durable: m.Durable, Priority: m.Priority, TTL: headerTTL(m), FirstAcquirer: m.FirstAcquirer})
	if !m.DeliveryAnnotations.IsEmpty() {
		dst = appendDeliveryAnnotations(dst, m.DeliveryAnnotations, core.LockToken{})
	}
	a := openAnnotations(dst, wire.DescMessageAnnotations, m.Annotations)
	if a.sent(m); a.n > 0 {
		dst = a.close()
	}
	created, expires := lifeOf(m, time.Now())
	dst = appendProperties(dst, m, created, expires)
	if !m.Properties.IsEmpty() {
		dst = wire.AppendSection(dst, wire.DescApplicationProperties, m.Properties.Encoded())
	}
	return appendFooter(appendBody(dst, m.Body), m)
}

func AppendBatched(dst, encoded []byte) []byte { return wire.AppendDataSection(dst, encoded) }

type Arrival struct {
	*core.Message
	// BrokerProperties has what the peer has sent; other fields are zero.
	core.BrokerProperties
}

// ReadMessage decodes a message, but not a batch. The result shares encoded's memory.
func ReadMessage(encoded []byte) (Arrival, error) {
	m, err := decodeMessage(encoded)
	if err != nil {
		return Arrival{}, err
	}
	s, err := wire.SplitMessage(encoded, value.Limits{})
	if err != nil {
		return Arrival{}, err
	}
	a := Arrival{Message: m}
	if h, err := wire.DecodeHeader(s.Header); err == nil { // decodeMessage has already decoded this header without an error
		a.DeliveryCount = h.DeliveryCount
	}
	for k, raw := range value.MapEntries(s.MessageAnnotations) {
		a.annotate(string(k), raw)
	}
	return a, nil
}

// LockTokenOf returns the lock token in a delivery-tag of Service Bus, or zero.
func LockTokenOf(tag []byte) core.LockToken {
	if len(tag) != len(core.LockToken{}) {
		return core.LockToken{}
	}
	return swapToken(core.LockToken(tag))
}

// annotate adopts an annotation of the peer's broker, unless its type is unexpected.
func (a *Arrival) annotate(key string, raw []byte) {
	switch key {
	case annSequenceNumber:
		a.SequenceNumber, _, _ = value.ReadInt64(raw)
	case annEnqueuedSequence:
		a.EnqueuedSequenceNumber, _, _ = value.ReadInt64(raw)
	case annEnqueuedTime:
		if t, _, err := value.ReadTimestamp(raw); err == nil {
			a.EnqueuedTime = instant(t)
		}
	case annMessageState:
		if n, _, err := value.ReadInt32(raw); err == nil && n >= 0 && n <= int32(core.Scheduled) {
			a.State = core.State(n)
		}
	case annDeadLetterSource:
		a.DeadLetterSource, _ = annotatedText(key, raw)
	}
}
