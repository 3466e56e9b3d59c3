package https

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Content types of bodies whose message names none, or not what was made of it.
const (
	typeBytes = "application/octet-stream"
	typeText  = "text/plain; charset=utf-8"
	typeJSON  = "application/json"
)

// renderBody makes of a message's body what an HTTP client can read, and says
// its content type. A body that cannot be read as its kind is sent as it is.
func renderBody(m *core.Message) (body []byte, contentType string) {
	declared := func(otherwise string) string {
		if m.ContentType != "" && isPrintable(m.ContentType) {
			return m.ContentType
		}
		return otherwise
	}
	encoded := m.Body.Bytes
	switch m.Body.Kind {
	case core.BodyDataSections:
		if joined, ok := joinData(encoded); ok {
			return joined, declared(typeBytes)
		}
	case core.BodyValue:
		section, _, err := sectionValue(encoded)
		if err != nil {
			break
		}
		switch value.KindOf(section) {
		case value.KindString, value.KindSymbol:
			if s, _, err := value.ReadText(section); err == nil {
				return s, declared(typeText)
			}
		case value.KindBinary:
			if data, _, err := value.ReadBinary(section); err == nil {
				return data, declared(typeBytes)
			}
		default:
			if v, _, err := value.Decode(section, value.Limits{}); err == nil {
				return appendJSON(nil, v), typeJSON
			}
		}
	case core.BodySequence:
		if rendered, ok := renderSequences(encoded); ok {
			return rendered, typeJSON
		}
	}
	return encoded, declared(typeBytes)
}

// sectionValue splits the first section of encoded into the value behind its
// descriptor and what follows the section.
func sectionValue(encoded []byte) (v, rest []byte, err error) {
	section, rest, err := value.ReadRaw(encoded)
	if err != nil {
		return nil, nil, err
	}
	if value.KindOf(section) != value.KindDescribed {
		return section, rest, nil
	}
	_, v, err = value.ReadRaw(section[1:])
	return v, rest, err
}

func joinData(encoded []byte) (joined []byte, ok bool) {
	joined = make([]byte, 0, len(encoded))
	for len(encoded) > 0 {
		section, rest, err := sectionValue(encoded)
		if err != nil {
			return nil, false
		}
		data, _, err := value.ReadBinary(section)
		if err != nil {
			return nil, false
		}
		joined, encoded = append(joined, data...), rest
	}
	return joined, true
}

// renderSequences writes one sequence section as an array of its elements, and
// several as an array of such arrays.
func renderSequences(encoded []byte) (rendered []byte, ok bool) {
	var sections value.List
	for len(encoded) > 0 {
		section, rest, err := sectionValue(encoded)
		if err != nil {
			return nil, false
		}
		v, _, err := value.Decode(section, value.Limits{})
		if err != nil {
			return nil, false
		}
		sections, encoded = append(sections, v), rest
	}
	if len(sections) == 1 {
		return appendJSON(nil, sections[0]), true
	}
	return appendJSON(nil, sections), true
}

// appendJSON renders an AMQP value: null, booleans, numbers, strings, lists,
// arrays and maps as their like in JSON; timestamps as RFC 3339 with
// milliseconds; binary as base64; what else has a text, and floats that are no
// number, as strings. Keys of maps become text. A described value is
// {"descriptor": ..., "value": ...} unless its text is known.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64:
		return append(dst, headerValue(v)...)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case float64:
		return appendFloat(dst, v, 64)
	case value.List:
		return appendJSONList(dst, v)
	case value.Array:
		return appendJSONList(dst, v.Values)
	case value.Map:
		dst = append(dst, '{')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, displayText(e.Key), false)
			dst = append(dst, ':')
			dst = appendJSON(dst, e.Value)
		}
		return append(dst, '}')
	case value.Described:
		if text, ok := describedText(v); ok {
			return appendJSONString(dst, text, false)
		}
		dst = append(dst, `{"descriptor":`...)
		dst = appendJSON(dst, v.Descriptor)
		dst = append(dst, `,"value":`...)
		dst = appendJSON(dst, v.Value)
		return append(dst, '}')
	default:
		return appendJSONString(dst, displayText(v), false)
	}
}

func appendJSONList(dst []byte, vs []any) []byte {
	dst = append(dst, '[')
	for i, v := range vs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSON(dst, v)
	}
	return append(dst, ']')
}

// displayText is the text form of a value: of a string itself, of a compound its JSON.
func displayText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case value.Symbol:
		return string(v)
	case value.Char:
		return string(rune(v))
	case value.UUID:
		return v.String()
	case value.Timestamp:
		return v.Time().Format("2006-01-02T15:04:05.000Z07:00")
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case value.Decimal32:
		return formatDecimal(v[:])
	case value.Decimal64:
		return formatDecimal(v[:])
	case value.Decimal128:
		return formatDecimal(v[:])
	case value.Described:
		if text, ok := describedText(v); ok {
			return text
		}
	}
	return string(appendJSON(nil, v))
}

// The descriptors of the values that only .NET has types for.
const (
	descriptorTimeSpan       = value.Symbol("com.microsoft:timespan")
	descriptorURI            = value.Symbol("com.microsoft:uri")
	descriptorDateTimeOffset = value.Symbol("com.microsoft:datetime-offset")
)

// describedText is the text of the described values that .NET clients send as
// properties: TimeSpan, Uri and DateTimeOffset.
func describedText(d value.Described) (string, bool) {
	descriptor, ok := d.Descriptor.(value.Symbol)
	if !ok {
		return "", false
	}
	switch v := d.Value.(type) {
	case string:
		return v, descriptor == descriptorURI
	case int64:
		switch descriptor {
		case descriptorTimeSpan:
			return formatTimeSpan(v), true
		case descriptorDateTimeOffset:
			return timeOfTicks(v).Format(time.RFC3339Nano), true
		}
	}
	return "", false
}

// timeOfTicks converts .NET's count of 100 ns since the year 1.
func timeOfTicks(ticks int64) time.Time {
	const perSecond = 10_000_000
	const secondsToUnixEpoch = 62_135_596_800
	return time.Unix(ticks/perSecond-secondsToUnixEpoch, ticks%perSecond*100).UTC()
}

// appendJSONString appends s as a JSON string, with everything beyond ASCII escaped if ascii is set.
func appendJSONString(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || ascii && r > 0x7f && r <= 0xffff:
			dst = appendEscape(dst, r)
		case ascii && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendEscape(appendEscape(dst, high), low)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

func appendEscape(dst []byte, r rune) []byte {
	dst = append(dst, '\\', 'u')
	return append(dst, strconv.FormatInt(0x10000|int64(r), 16)[1:]...)
}
