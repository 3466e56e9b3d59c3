package entity

import (
	"encoding/hex"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// AdmitGroup checks a group of messages and sets the fields that the broker decides. One bad
// message makes the whole group fail.
func (v *View) AdmitGroup(group []*core.Message, now func() time.Time) error {
	size := int64(0)
	for _, m := range group {
		if err := v.Admit(m); err != nil {
			return err
		}
		m.WasScheduled = !m.ScheduledEnqueueTime.IsZero() && m.ScheduledEnqueueTime.After(now())
		if v.maxBatch > 0 && len(group) > 1 {
			size += int64(m.HeaderSize() + len(m.Body.Bytes))
		}
	}
	if size > v.maxBatch {
		return core.Refuse(core.TooLarge, "The batch has %d bytes, which exceeds the limit of %d bytes.", size, v.maxBatch)
	}
	return nil
}

// Admit calls Check, and applies the entity's default time to live.
func (v *View) Admit(m *core.Message) error {
	if err := v.Check(m); err != nil {
		return err
	}
	m.TimeToLive = CappedLife(m.TimeToLive, v.Settings.DefaultMessageTimeToLive)
	return nil
}

// Check applies the limits in section "Limits" of the Service Bus wire contract.
func (v *View) Check(m *core.Message) error {
	for _, key := range [...]struct{ name, text string }{
		{"SessionId", m.SessionID},
		{"PartitionKey", m.PartitionKey},
		{"ViaPartitionKey", m.ViaPartitionKey},
		{"ReplyToSessionId", m.ReplyToSessionID},
	} {
		if TooLong(key.text) {
			return LongKey(key.name, key.text)
		}
	}
	if TooLong(m.MessageID.Raw()) {
		return LongKey("MessageId", m.MessageID.String())
	}
	// The JavaScript SDK's live tests need an empty session id to fit any partition key.
	if m.SessionID != "" && m.PartitionKey != "" && m.SessionKey() != core.KeyOfSession(m.PartitionKey) {
		return core.Refuse(core.NotAllowed, "SessionId '%s' and PartitionKey '%s' differ: set only one, or set both to the same value.", m.SessionID, m.PartitionKey)
	}
	if !m.HasSession() && v.Settings.RequiresSession && v.Kind == core.Queue {
		return ErrNoSessionID
	}
	if m.TimeToLive < 0 {
		return core.Refuse(core.OutOfRange, "TimeToLive is %v: it must not be negative.", m.TimeToLive)
	}
	header := m.HeaderSize()
	if size := int64(header + len(m.Body.Bytes)); size > v.MaxMessage {
		return core.Refuse(core.TooLarge, "The message has %d bytes, which exceeds the limit of %d bytes for '%s'.", size, v.MaxMessage, v.Name)
	}
	if err := checkProperties(m.Properties, v.noBinary); err != nil {
		return err
	}
	if header > core.MaxHeaderBytes {
		name, size := largestPart(m)
		return core.Refuse(core.InvalidArgument, "The properties of the message have %d bytes in total, which exceeds the limit of %d bytes. The largest property is %s with %d bytes.", header, core.MaxHeaderBytes, name, size)
	}
	return nil
}

func TooLong(key string) bool {
	return len(key) > core.MaxKeyLength && utf8.RuneCountInString(key) > core.MaxKeyLength
}

func LongKey(name, text string) error {
	return core.Refuse(core.InvalidArgument, "%s has %d characters: at most %d are allowed.", name, utf8.RuneCountInString(text), core.MaxKeyLength)
}

// checkProperties checks user properties without decoding them. AMQP 1.0 §3.2.5 only allows simple
// values. Described values are accepted, because they represent .NET types.
func checkProperties(p core.Properties, noBinary bool) error {
	if p.IsEmpty() {
		return nil
	}
	for k, v := range value.MapEntries(p.Encoded()) {
		switch kind := value.KindOf(v); {
		case kind == value.KindBinary && noBinary: // refused with the same condition as by Service Bus
			return core.Refuse(core.TooLarge, "Serialization operation failed due to unsupported type System.Byte[]: the user property '%.64s' is binary.", k)
		case kind == value.KindList, kind == value.KindMap, kind == value.KindArray:
			return core.Refuse(core.InvalidArgument, "The user property '%.64s' is a list, map or array: only simple values are allowed.", k)
		}
		if len(k) > core.MaxPropertyNameLength || len(v) > core.MaxPropertyNameLength {
			if name, text := utf8.RuneCount(k), characters(v); max(name, text) > core.MaxPropertyNameLength {
				return core.Refuse(core.InvalidArgument, "The user property '%.64s' has %d characters in its name and %d in its value: at most %d are allowed in each.", k, name, max(text, 0), core.MaxPropertyNameLength)
			}
		}
	}
	return nil
}

func characters(encoded []byte) int {
	if text, _, err := value.ReadText(encoded); err == nil {
		return utf8.RuneCount(text)
	}
	const constructor = 5 // the bytes before the value: a format code and a size
	return len(encoded) - constructor
}

func largestPart(m *core.Message) (name string, size int) {
	consider := func(n string, s int) {
		if s > size {
			name, size = n, s
		}
	}
	consider("UserId", len(m.UserID))
	consider("CorrelationId", len(m.CorrelationID.Raw()))
	consider("To", len(m.To))
	consider("Label", len(m.Subject))
	consider("ReplyTo", len(m.ReplyTo))
	consider("ContentType", len(m.ContentType))
	consider("ContentEncoding", len(m.ContentEncoding))
	consider("the footer", len(m.Footer))
	for _, part := range []struct {
		kind string
		of   core.Properties
	}{{"message annotation", m.Annotations}, {"delivery annotation", m.DeliveryAnnotations}, {"user property", m.Properties}} {
		if part.of.IsEmpty() {
			continue
		}
		for k, v := range value.MapEntries(part.of.Encoded()) {
			if len(k)+len(v) > size {
				consider(part.kind+" '"+string(k[:min(len(k), core.MaxKeyLength)])+"'", len(k)+len(v))
			}
		}
	}
	return name, size
}

// Identify gives messages without an id a random one, which duplicate detection has never seen.
func Identify(group []*core.Message) {
	for _, m := range group {
		if m.MessageID.IsZero() {
			u := value.NewUUID()
			m.MessageID = core.StringID(hex.EncodeToString(u[:]))
		}
	}
}

func Soonest(groups [][]*core.Message, now time.Time) time.Time {
	var first time.Duration
	for _, g := range groups {
		for _, m := range g {
			if m.TimeToLive > 0 && (first == 0 || m.TimeToLive < first) {
				first = m.TimeToLive
			}
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return now.Add(first)
}

// CappedLife returns the shorter of a time to live and a limit; 0 if the message does not expire.
func CappedLife(life, limit time.Duration) time.Duration {
	if life <= 0 || life > limit {
		life = limit
	}
	if life == core.Forever {
		return 0
	}
	return life
}
