package rules

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// Facts are the broker's properties of a message. A zero field is not known yet: NULL in SQL.
type Facts struct {
	EnqueuedTime           time.Time
	SequenceNumber         int64
	EnqueuedSequenceNumber int64
	DeliveryCount          uint32 // unlike that of other fields, its 0 is known
	State                  core.State
	// Body decodes a message's body for conditions on its fields. If Body is nil, they are Unknown.
	Body func(*core.Message) (any, error)
	// Ask returns whether a router passes the message. If nil, no rule may call a plugin.
	Ask func(Call) (bool, error)
	// Changed, if not nil, gets each message that an action makes during Match. If it returns
	// false, Match ends, and its result must not be used. Changed must not block.
	Changed func(*core.Message) bool
}

type system struct {
	name string
	// get is not used if text is set.
	get func(*core.Message, *Facts) datum
	// text returns "" if the property is not set.
	text func(*core.Message) string
	// field is the bit in Message.EmptyText, or 0 if the field has none.
	field core.TextFields
	// set is nil if actions must not change the property.
	set func(*core.Message, datum) error
}

func (p *system) value(m *core.Message, f *Facts) datum {
	if p.text != nil {
		if s := p.text(m); m.Has(p.field, s) {
			return textOf(s)
		}
		return datum{kind: null}
	}
	return p.get(m, f)
}

// unset is the function get of a property that no message has while it is published.
func unset(*core.Message, *Facts) datum { return datum{kind: null} }

// ignored is the function set of a property that an action may set without effect.
func ignored(*core.Message, datum) error { return nil }

var systems = func() map[string]*system {
	list := []*system{
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
	for i := range core.MessageFields {
		list = append(list, fieldProperty(&core.MessageFields[i]))
	}
	byName := make(map[string]*system, len(list)+1)
	for _, p := range list {
		byName[strings.ToLower(p.name)] = p
	}
	byName["subject"] = byName["label"]
	return byName
}()

// systemNamed ignores case. For an unknown name, it returns a property without a value.
func systemNamed(name string) *system {
	if p, ok := systems[strings.ToLower(name)]; ok {
		return p
	}
	return &system{name: name, get: unset}
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

// An action that sets a fieldProperty to an unknown value removes the field.
func fieldProperty(f *core.MessageField) *system {
	at, id := f.Text, f.ID
	text := func(m *core.Message) string { return *at(m) }
	if id != nil {
		text = func(m *core.Message) string { return id(m).String() }
	}
	return &system{name: f.Name, text: text, field: f.Bit, set: func(m *core.Message, d datum) error {
		s, err := fieldText(d, f.Limit)
		if err != nil {
			return err
		}
		if f.Unset(m); !d.isUnknown() {
			f.Set(m, s)
		}
		return nil
	}}
}

func fieldText(d datum, limit int) (string, error) {
	if d.isUnknown() {
		return "", nil
	}
	s, ok := d.render()
	if !ok {
		return "", fmt.Errorf("the value cannot be converted to a string")
	}
	if n := utf8.RuneCountInString(s); limit > 0 && n > limit {
		return "", fmt.Errorf("the value has %d characters; at most %d are allowed", n, limit)
	}
	return s, nil
}

// setTimeToLive accepts a TimeSpan, or a text in the form of ISO 8601 or of .NET. With an unknown
// value, the entity's default applies.
func setTimeToLive(m *core.Message, d datum) error {
	var ttl time.Duration
	switch d.kind {
	case absent, null:
		m.TimeToLive = 0
		return nil
	case span:
		ttl = core.DurationOfTicks(d.int())
	case text:
		ticks, err := parseTimeSpan(d.text)
		if err != nil {
			return err
		}
		ttl = core.DurationOfTicks(ticks)
	default:
		return fmt.Errorf("a time to live must be a duration such as 'PT5M' or '00:05:00'")
	}
	if ttl < time.Millisecond {
		return fmt.Errorf("a time to live must be at least a millisecond, not %s", ttl)
	}
	m.TimeToLive = ttl
	return nil
}
