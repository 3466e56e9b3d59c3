package value

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Descriptors of .NET's types that AMQP does not have.
const (
	DescriptorTimeSpan       = Symbol("com.microsoft:timespan")        // a long: ticks of 100 ns
	DescriptorURI            = Symbol("com.microsoft:uri")             // a string
	DescriptorDateTimeOffset = Symbol("com.microsoft:datetime-offset") // a long: ticks since the year 1
)

// DescriptorDateTime is the descriptor of a time that a timestamp cannot represent: one without a
// zone, which means UTC, or more precise than a millisecond. The value is a string for
// ParseDateTime. Only rules have such values.
const DescriptorDateTime = Symbol("com.crosstown:date-time")

// ParseDateTime parses a dateTime of XML Schema (§3.2.7). zoned is false if it has no zone.
func ParseDateTime(s string) (t time.Time, zoned bool, err error) {
	if t, err = time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true, nil
	}
	t, err = time.Parse("2006-01-02T15:04:05.999999999", s)
	return t, false, err
}

// Text returns the text form of a value: a string itself, the JSON form of a list, map or array.
func Text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case Symbol:
		return string(v)
	case Char:
		return string(rune(v))
	case UUID, Decimal32, Decimal64, Decimal128:
		return v.(fmt.Stringer).String()
	case Timestamp:
		return v.Time().Format("2006-01-02T15:04:05.000Z07:00")
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case Described:
		if text, ok := describedText(v); ok {
			return text
		}
	}
	return string(AppendJSON(nil, v))
}

// describedText returns the text of TimeSpan, Uri and DateTimeOffset properties of .NET clients.
func describedText(d Described) (string, bool) {
	descriptor, ok := d.Descriptor.(Symbol)
	if !ok {
		return "", false
	}
	switch v := d.Value.(type) {
	case string:
		return v, descriptor == DescriptorURI || descriptor == DescriptorDateTime
	case int64:
		switch descriptor {
		case DescriptorTimeSpan:
			return FormatTimeSpan(v), true
		case DescriptorDateTimeOffset:
			return timeOfTicks(v).Format(time.RFC3339Nano), true
		}
	}
	return "", false
}

func timeOfTicks(ticks int64) time.Time {
	const secondsToUnixEpoch = 62_135_596_800
	return time.Unix(ticks/TicksPerSecond-secondsToUnixEpoch, ticks%TicksPerSecond*100).UTC()
}

// AppendJSON appends the JSON form of a value. Null, booleans, numbers, strings, lists, arrays and
// maps have their JSON equivalents; decimals all their digits. Timestamps become RFC 3339 with
// milliseconds, binary becomes base64. Other values with a text, and floats and decimals that are
// not numbers, become strings. Keys of maps become text. A described value without a known text is
// {"descriptor": …, "value": …}.
func AppendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case uint8, uint16, uint32, int8, int16, int32, int64:
		n, _ := Int(v)
		return strconv.AppendInt(dst, n, 10)
	case float32:
		return AppendFloatText(dst, float64(v), 32)
	case float64:
		return AppendFloatText(dst, v, 64)
	case Decimal32, Decimal64, Decimal128:
		return appendDecimalJSON(dst, Text(v))
	case List:
		return appendListJSON(dst, v)
	case Array:
		return appendListJSON(dst, v.Values)
	case Map:
		return appendMapJSON(dst, v)
	case Described:
		if text, ok := describedText(v); ok {
			return AppendStringJSON(dst, text, false)
		}
		dst = AppendJSON(append(dst, `{"descriptor":`...), v.Descriptor)
		dst = AppendJSON(append(dst, `,"value":`...), v.Value)
		return append(dst, '}')
	case string:
		return AppendStringJSON(dst, v, false)
	case Symbol, Char, UUID, Timestamp, []byte:
		return AppendStringJSON(dst, Text(v), false)
	default:
		return append(dst, "null"...) // a Go type that this package does not have
	}
}

func appendListJSON(dst []byte, vs []any) []byte {
	dst = append(dst, '[')
	for i, v := range vs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSON(dst, v)
	}
	return append(dst, ']')
}

func appendMapJSON(dst []byte, m Map) []byte {
	dst = append(dst, '{')
	for i, e := range m {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendStringJSON(dst, Text(e.Key), false)
		dst = AppendJSON(append(dst, ':'), e.Value)
	}
	return append(dst, '}')
}

func appendDecimalJSON(dst []byte, s string) []byte {
	if c := s[len(s)-1]; c == 'N' || c == 'y' { // NaN or Infinity
		return AppendStringJSON(dst, s, false)
	}
	return append(dst, s...)
}

// AppendFloatText appends a float in a form that readers recognise as a float. A float that is not
// a number is quoted: "NaN", "Infinity", "-Infinity".
func AppendFloatText(dst []byte, f float64, bits int) []byte {
	mark := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, bits)
	switch c := dst[len(dst)-1]; {
	case c == 'N' || c == 'f': // NaN, +Inf or -Inf
		name := strings.Replace(strings.TrimPrefix(string(dst[mark:]), "+"), "Inf", "Infinity", 1)
		return append(append(append(dst[:mark], '"'), name...), '"')
	case strings.ContainsAny(string(dst[mark:]), ".e"):
		return dst
	default:
		return append(dst, ".0"...)
	}
}

// AppendStringJSON appends s as a JSON string. If ascii is true, it escapes all characters outside
// of ASCII. It replaces invalid UTF-8, for which browsers close a connection, by U+FFFD.
func AppendStringJSON[T string | []byte](dst []byte, s T, ascii bool) []byte {
	dst = append(dst, '"')
	plain := 0 // s[:plain] is in dst
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if valid := r != utf8.RuneError || size > 1; r > 0x7f && valid && !ascii && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = appendRuneJSON(dst, r, ascii)
		i += size
		plain = i
	}
	return append(append(dst, s[plain:]...), '"')
}

func appendRuneJSON(dst []byte, r rune, ascii bool) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\n':
		return append(dst, '\\', 'n')
	case r == utf8.RuneError && !ascii:
		return utf8.AppendRune(dst, r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return appendEscape(appendEscape(dst, high), low)
	default:
		return appendEscape(dst, r)
	}
}

func appendEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// Ticks are .NET's unit of time, 100 ns.
const (
	TicksPerSecond = 10_000_000
	TicksPerMinute = 60 * TicksPerSecond
	TicksPerHour   = 60 * TicksPerMinute
	TicksPerDay    = 24 * TicksPerHour
)

// ParseTimeSpan parses .NET's [-][days.]hours:minutes[:seconds[.fraction]], and returns ticks.
func ParseTimeSpan(s string) (ticks int64, err error) {
	malformed := fmt.Errorf("%.40q is not of the form [d.]hh:mm:ss[.fffffff]", s)
	rest, negative := strings.CutPrefix(s, "-")
	fields := strings.Split(rest, ":")
	if len(fields) != 2 && len(fields) != 3 {
		return 0, malformed
	}
	days, hours, ok := strings.Cut(fields[0], ".")
	if !ok {
		days, hours = "0", fields[0]
	}
	seconds, fraction := "0", ""
	if len(fields) == 3 {
		seconds, fraction, _ = strings.Cut(fields[2], ".")
	}
	total := uint64(0)
	for _, part := range [...]struct {
		digits      string
		limit, unit uint64
	}{
		{days, math.MaxInt64 / TicksPerDay, TicksPerDay},
		{hours, 23, TicksPerHour},
		{fields[1], 59, TicksPerMinute},
		{seconds, 59, TicksPerSecond},
		{fraction + "0000000"[min(7, len(fraction)):], TicksPerSecond - 1, 1},
	} {
		n, err := strconv.ParseUint(part.digits, 10, 64)
		if err != nil || n > part.limit || len(fraction) > 7 {
			return 0, malformed
		}
		total += n * part.unit
	}
	switch {
	case total > math.MaxInt64:
		return 0, fmt.Errorf("%.40q is longer than the longest time span, 10675199.02:48:05.4775807", s)
	case negative:
		return -int64(total), nil
	default:
		return int64(total), nil
	}
}

// FormatTimeSpan returns ticks in the form [-][d.]hh:mm:ss[.fffffff].
func FormatTimeSpan(ticks int64) string {
	sign, n := "", uint64(ticks)
	if ticks < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%02d:%02d:%02d", n/TicksPerHour%24, n/TicksPerMinute%60, n/TicksPerSecond%60)
	if days := n / TicksPerDay; days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	if fraction := n % TicksPerSecond; fraction > 0 {
		s = fmt.Sprintf("%s.%07d", s, fraction)
	}
	return sign + s
}
