package frame

import (
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// brokerProperties are the members of broker that a sender may set, by their
// Service Bus names.
var brokerProperties = map[string]func(m *core.Message, r codec.Reader) error{
	"MessageId":               id(func(m *core.Message) *core.ID { return &m.MessageID }, 0),
	"CorrelationId":           id(func(m *core.Message) *core.ID { return &m.CorrelationID }, core.FieldCorrelationID),
	"SessionId":               text(func(m *core.Message) *string { return &m.SessionID }, core.FieldSessionID),
	"ReplyToSessionId":        text(func(m *core.Message) *string { return &m.ReplyToSessionID }, core.FieldReplyToSessionID),
	"Label":                   text(func(m *core.Message) *string { return &m.Subject }, core.FieldSubject),
	"Subject":                 text(func(m *core.Message) *string { return &m.Subject }, core.FieldSubject),
	"To":                      text(func(m *core.Message) *string { return &m.To }, core.FieldTo),
	"ReplyTo":                 text(func(m *core.Message) *string { return &m.ReplyTo }, core.FieldReplyTo),
	"ContentType":             text(func(m *core.Message) *string { return &m.ContentType }, core.FieldContentType),
	"PartitionKey":            text(func(m *core.Message) *string { return &m.PartitionKey }, 0),
	"ViaPartitionKey":         text(func(m *core.Message) *string { return &m.ViaPartitionKey }, 0),
	"TimeToLive":              readTimeToLive,
	"ScheduledEnqueueTimeUtc": readScheduled,
}

// givenByBroker are those that only the broker sets. A sender's are passed over,
// so that a received message may be sent again as it is.
var givenByBroker = map[string]bool{
	"SequenceNumber": true, "EnqueuedSequenceNumber": true, "EnqueuedTimeUtc": true, "ExpiresAtUtc": true, "DeliveryCount": true,
	"LockToken": true, "LockedUntilUtc": true, "State": true, "DeadLetterSource": true,
}

// text reads a text; bit is set if it is the empty one.
func text(field func(*core.Message) *string, bit core.TextFields) func(*core.Message, codec.Reader) error {
	return func(m *core.Message, r codec.Reader) (err error) {
		if *field(m), err = ReadText(r); *field(m) == "" {
			m.EmptyText |= bit
		}
		return err
	}
}

// id reads an id: a text, or a value of the other types that AMQP 1.0 §3.2.11–14 has for it.
func id(field func(*core.Message) *core.ID, bit core.TextFields) func(*core.Message, codec.Reader) error {
	return func(m *core.Message, r codec.Reader) error {
		v, err := Read(r)
		if err != nil {
			return err
		}
		switch v := v.(type) {
		case string:
			*field(m) = core.StringID(v)
			if v == "" {
				m.EmptyText |= bit
			}
		case uint64:
			*field(m) = core.ULongID(v)
		case value.UUID:
			*field(m) = core.UUIDID(v)
		case []byte:
			*field(m) = core.BinaryID(v)
		default:
			return Wrong("must be a text, or tagged as $ulong, $uuid or $binary")
		}
		return nil
	}
}

func readTimeToLive(m *core.Message, r codec.Reader) error {
	d, err := ReadSeconds(r)
	if err == nil && d <= 0 {
		err = Wrong("must be above 0")
	}
	m.TimeToLive = d
	return err
}

func readScheduled(m *core.Message, r codec.Reader) (err error) {
	m.ScheduledEnqueueTime, err = ReadTime(r)
	return err
}

// ReadSeconds reads a number of seconds as a duration in whole milliseconds, at
// least one unless it is 0.
func ReadSeconds(r codec.Reader) (time.Duration, error) {
	var seconds float64
	switch k := r.Kind(); k {
	case codec.Int:
		seconds = float64(r.Int())
	case codec.Uint, codec.Huge:
		seconds = math.Inf(1)
	case codec.Float, codec.Float32:
		var ok bool
		if seconds, ok = r.Float(); !ok || math.IsNaN(seconds) {
			return 0, Wrong("must be a number of seconds")
		}
	default:
		return 0, Wrong("is %s: it must be a number of seconds", k)
	}
	if seconds < 0 {
		return 0, Wrong("must not be negative")
	}
	ms := math.Round(seconds * 1000)
	switch {
	case ms == 0 && seconds > 0:
		ms = 1
	case ms >= float64(core.Forever/time.Millisecond):
		return core.Forever, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// readBroker reads the broker properties of a message.
func readBroker(r codec.Reader, m *core.Message) error {
	if k := r.Kind(); k != codec.Map {
		return Wrong("is %s: it must be a map", k)
	}
	var seen []string
	for r.Open(); r.More(); {
		name := string(r.Key())
		if givenByBroker[name] {
			r.Skip()
			continue
		}
		set := brokerProperties[name]
		if set == nil {
			return In(name, Wrong("is no broker property that a sender may set"))
		}
		if name == "Subject" {
			name = "Label"
		}
		if slices.Contains(seen, name) {
			return In(name, Wrong("is given twice"))
		}
		seen = append(seen, name)
		if err := set(m, r); err != nil {
			return In(name, err)
		}
	}
	return nil
}
