package rules

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// Facts are what the broker knows of a message beside what its producer set.
// What is zero is not known (yet), and is NULL in SQL.
type Facts struct {
	EnqueuedTime           time.Time
	SequenceNumber         int64
	EnqueuedSequenceNumber int64
	DeliveryCount          uint32 // 0 is known
	State                  core.State
	// Body decodes a message's body, for conditions on its fields; nil: nobody can.
	Body func(*core.Message) (any, error)
	// Ask answers plugin(…): whether the router lets the message pass. nil: nobody does.
	Ask func(Call) (bool, error)
}

// system is a property of the scope sys.
type system struct {
	name string
	// get is its value.
	get func(*core.Message, *Facts) datum
	// text is its value if it is a text of the message, "" if it is not set.
	text func(*core.Message) string
	// set changes it; nil if an action may not.
	set func(*core.Message, datum) error
}

// value returns the property of a message.
func (p *system) value(m *core.Message, f *Facts) datum {
	if p.text != nil {
		return setTextOf(p.text(m))
	}
	return p.get(m, f)
}

// The system properties that correlation filters test.
var (
	sysContentType = &system{
		name: "ContentType", set: setText(func(m *core.Message) *string { return &m.ContentType }, 0),
		text: func(m *core.Message) string { return m.ContentType },
	}
	sysCorrelationID = &system{
		name: "CorrelationId", set: setID(func(m *core.Message) *core.ID { return &m.CorrelationID }, 0),
		text: func(m *core.Message) string { return m.CorrelationID.String() },
	}
	sysLabel = &system{
		name: "Label", set: setText(func(m *core.Message) *string { return &m.Subject }, 0),
		text: func(m *core.Message) string { return m.Subject },
	}
	sysMessageID = &system{
		name: "MessageId", set: setID(func(m *core.Message) *core.ID { return &m.MessageID }, core.MaxKeyLength),
		text: func(m *core.Message) string { return m.MessageID.String() },
	}
	sysReplyTo = &system{
		name: "ReplyTo", set: setText(func(m *core.Message) *string { return &m.ReplyTo }, 0),
		text: func(m *core.Message) string { return m.ReplyTo },
	}
	sysReplyToSessionID = &system{
		name: "ReplyToSessionId", set: setText(func(m *core.Message) *string { return &m.ReplyToSessionID }, core.MaxKeyLength),
		text: func(m *core.Message) string { return m.ReplyToSessionID },
	}
	sysSessionID = &system{
		name: "SessionId", set: setText(func(m *core.Message) *string { return &m.SessionID }, core.MaxKeyLength),
		text: func(m *core.Message) string { return m.SessionID },
	}
	sysTo = &system{
		name: "To", set: setText(func(m *core.Message) *string { return &m.To }, 0),
		text: func(m *core.Message) string { return m.To },
	}
)

// unset is the value of what a message does not have while it is published.
func unset(*core.Message, *Facts) datum { return datum{kind: null} }

// ignored takes what an action may set without effect on a published copy.
func ignored(*core.Message, datum) error { return nil }

// systems are all system properties, by lower-case name.
var systems = func() map[string]*system {
	list := []*system{
		sysContentType, sysCorrelationID, sysLabel, sysMessageID,
		sysReplyTo, sysReplyToSessionID, sysSessionID, sysTo,
		{
			name: "PartitionKey", set: setText(func(m *core.Message) *string { return &m.PartitionKey }, core.MaxKeyLength),
			text: func(m *core.Message) string { return m.PartitionKey },
		},
		{
			name: "ViaPartitionKey", set: setText(func(m *core.Message) *string { return &m.ViaPartitionKey }, core.MaxKeyLength),
			text: func(m *core.Message) string { return m.ViaPartitionKey },
		},
		{name: "DeliveryCount", get: func(_ *core.Message, f *Facts) datum { return integerOf(int64(f.DeliveryCount)) }},
		{name: "EnqueuedSequenceNumber", get: func(_ *core.Message, f *Facts) datum { return number(f.EnqueuedSequenceNumber) }},
		{name: "EnqueuedTimeUtc", get: func(_ *core.Message, f *Facts) datum { return setInstantOf(f.EnqueuedTime) }},
		{name: "ExpiresAtUtc", get: expiresAt},
		{name: "ForcePersistence", get: unset, set: ignored},
		{name: "LockToken", get: unset},
		{name: "LockedUntilUtc", get: unset},
		{
			name: "ScheduledEnqueueTimeUtc", set: ignored,
			get: func(m *core.Message, _ *Facts) datum { return setInstantOf(m.ScheduledEnqueueTime) },
		},
		{name: "SequenceNumber", get: func(_ *core.Message, f *Facts) datum { return number(f.SequenceNumber) }},
		{name: "Size", get: func(m *core.Message, _ *Facts) datum { return integerOf(int64(m.Size())) }},
		{name: "State", get: func(_ *core.Message, f *Facts) datum { return textOf(f.State.String()) }},
		{
			name: "TimeToLive", set: setTimeToLive,
			get: func(m *core.Message, _ *Facts) datum { return setSpanOf(m.TimeToLive) },
		},
	}
	byName := make(map[string]*system, len(list)+1)
	for _, p := range list {
		byName[strings.ToLower(p.name)] = p
	}
	byName["subject"] = sysLabel
	return byName
}()

// systemNamed finds a system property by its name in any case.
func systemNamed(name string) (*system, error) {
	if p, ok := systems[strings.ToLower(name)]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("there is no system property 'sys.%.80s'", name)
}

func number(n int64) datum {
	if n == 0 {
		return datum{kind: null}
	}
	return integerOf(n)
}

func expiresAt(m *core.Message, f *Facts) datum {
	if f.EnqueuedTime.IsZero() || m.TimeToLive <= 0 || m.TimeToLive >= core.Forever {
		return datum{kind: null}
	}
	return setInstantOf(f.EnqueuedTime.Add(m.TimeToLive))
}

// setText sets a text field of at most limit characters; 0 means no limit. An
// unknown value unsets it.
func setText(field func(*core.Message) *string, limit int) func(*core.Message, datum) error {
	return func(m *core.Message, d datum) error {
		s, err := fieldText(d, limit)
		if err == nil {
			*field(m) = s
		}
		return err
	}
}

// setID is setText for an id.
func setID(field func(*core.Message) *core.ID, limit int) func(*core.Message, datum) error {
	return func(m *core.Message, d datum) error {
		s, err := fieldText(d, limit)
		if err == nil {
			*field(m) = core.StringID(s)
		}
		return err
	}
}

func fieldText(d datum, limit int) (string, error) {
	if d.isUnknown() {
		return "", nil
	}
	s, ok := d.render()
	if !ok {
		return "", fmt.Errorf("the value cannot be written as text")
	}
	if n := utf8.RuneCountInString(s); limit > 0 && n > limit {
		return "", fmt.Errorf("the value has %d characters; at most %d are allowed", n, limit)
	}
	return s, nil
}

// setTimeToLive takes a TimeSpan, or text in the form of ISO 8601 or of .NET.
// An unknown value leaves the time to live to the entity.
func setTimeToLive(m *core.Message, d datum) error {
	var ttl time.Duration
	switch d.kind {
	case absent, null:
		m.TimeToLive = 0
		return nil
	case span:
		ttl = durationOf(d.int())
	case text:
		ticks, err := parseTimeSpan(d.text)
		if err != nil {
			return err
		}
		ttl = durationOf(ticks)
	default:
		return fmt.Errorf("a time to live is a duration such as 'PT5M' or '00:05:00'")
	}
	if ttl < time.Millisecond {
		return fmt.Errorf("a time to live must be at least a millisecond, not %s", ttl)
	}
	m.TimeToLive = ttl
	return nil
}

// durationOf turns ticks into a duration, at most Forever.
func durationOf(ticks int64) time.Duration {
	if ticks > int64(core.Forever/tick) {
		return core.Forever
	}
	return time.Duration(max(ticks, -int64(core.Forever/tick))) * tick
}
