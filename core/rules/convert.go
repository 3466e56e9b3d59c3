package rules

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
)

const instantLayout = "2006-01-02T15:04:05.9999999Z07:00"

func timeOf(ticks int64) time.Time {
	whole := ticks / ticksPerSecond
	return time.Unix(whole, (ticks-whole*ticksPerSecond)*int64(tick)).UTC()
}

// render returns d as .NET writes it, but instants in ISO 8601, or false if d has no text form.
func (d datum) render() (string, bool) {
	switch d.kind {
	case text:
		return d.text, true
	case integer:
		return strconv.FormatInt(d.int(), 10), true
	case huge:
		return strconv.FormatUint(d.num, 10), true
	case real:
		return formatReal(d.real()), true
	case boolean:
		if d.num == 1 {
			return "True", true
		}
		return "False", true
	case instant:
		return timeOf(d.int()).Format(instantLayout), true
	case span:
		return value.FormatTimeSpan(d.int()), true
	case guid:
		return value.UUID([]byte(d.text)).String(), true
	default:
		return "", false
	}
}

// Like .NET, formatReal writes very large and very small numbers with an exponent.
func formatReal(f float64) string {
	if a := math.Abs(f); a != 0 && a < 1e-5 || a >= 1e15 {
		return strconv.FormatFloat(f, 'E', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// encode appends a known value in the type that a new property with this value gets.
func (d datum) encode(dst []byte) []byte {
	switch d.kind {
	case boolean:
		return value.AppendBool(dst, d.num == 1)
	case integer:
		return value.AppendInt64(dst, d.int())
	case huge:
		return value.AppendUint64(dst, d.num)
	case real:
		return value.AppendFloat64(dst, d.real())
	case instant:
		return value.AppendTimestamp(dst, value.TimestampOf(timeOf(d.int())))
	case span:
		return value.AppendInt64(appendDescriptor(dst, descriptorTimeSpan), d.int())
	case guid:
		return value.AppendUUID(dst, value.UUID([]byte(d.text)))
	case binary:
		return value.AppendBinary(dst, []byte(d.text))
	case opaque:
		return append(dst, d.text...)
	default:
		return value.AppendString(dst, d.text)
	}
}

func appendDescriptor(dst []byte, symbol string) []byte {
	const described = 0x00 // AMQP 1.0 §1.2: the constructor of a described value
	return value.AppendSymbol(append(dst, described), symbol)
}

// encodeAs encodes d as the type of the encoded value old. ok is false if d cannot have this type.
func (d datum) encodeAs(dst, old []byte) (out []byte, ok bool) {
	kind := value.KindOf(old)
	switch kind {
	case value.KindString, value.KindSymbol, value.KindChar:
		return d.encodeText(dst, kind)
	case value.KindFloat32, value.KindFloat64:
		return d.encodeReal(dst, kind)
	case value.KindBool:
		return d.encodeBoolean(dst)
	case value.KindTimestamp:
		at, ok := d.asInstant()
		if !ok {
			return dst, false
		}
		return value.AppendTimestamp(dst, value.TimestampOf(timeOf(at))), true
	case value.KindUUID:
		return d.encodeGUID(dst)
	case value.KindDescribed:
		return d.encodeDescribed(dst, old)
	}
	if encode := integerEncodings[kind]; encode != nil {
		return encode(d, dst)
	}
	return dst, false
}

var integerEncodings = map[value.Kind]func(d datum, dst []byte) ([]byte, bool){
	value.KindUint8:  encodeInteger(value.AppendUint8),
	value.KindUint16: encodeInteger(value.AppendUint16),
	value.KindUint32: encodeInteger(value.AppendUint32),
	value.KindUint64: encodeInteger(value.AppendUint64),
	value.KindInt8:   encodeInteger(value.AppendInt8),
	value.KindInt16:  encodeInteger(value.AppendInt16),
	value.KindInt32:  encodeInteger(value.AppendInt32),
	value.KindInt64:  encodeInteger(value.AppendInt64),
}

// encodeInteger returns a function that encodes d as a T, or fails if d is not a number that fits.
func encodeInteger[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](appendTo func([]byte, T) []byte) func(d datum, dst []byte) ([]byte, bool) {
	return func(d datum, dst []byte) ([]byte, bool) {
		d, ok := d.asNumber()
		if d.kind == real {
			d = canonical(d)
		}
		n, negative := T(d.num), d.kind == integer && d.int() < 0
		if !ok || d.kind == real || uint64(n) != d.num || n < 0 != negative {
			return dst, false
		}
		return appendTo(dst, n), true
	}
}

func (d datum) asNumber() (datum, bool) {
	if d.kind != text {
		return d, d.isNumber()
	}
	if n, err := strconv.ParseInt(d.text, 10, 64); err == nil {
		return integerOf(n), true
	}
	if n, err := strconv.ParseUint(d.text, 10, 64); err == nil {
		return unsignedOf(n), true
	}
	f, err := strconv.ParseFloat(d.text, 64)
	return realOf(f), err == nil
}

func (d datum) encodeReal(dst []byte, kind value.Kind) ([]byte, bool) {
	d, ok := d.asNumber()
	switch {
	case !ok:
		return dst, false
	case kind == value.KindFloat32:
		return value.AppendFloat32(dst, float32(d.real())), true
	default:
		return value.AppendFloat64(dst, d.real()), true
	}
}

func (d datum) encodeText(dst []byte, kind value.Kind) ([]byte, bool) {
	s, ok := d.render()
	switch {
	case !ok:
		return dst, false
	case kind == value.KindSymbol:
		return value.AppendSymbol(dst, s), true
	case kind == value.KindString:
		return value.AppendString(dst, s), true
	}
	c, n := utf8.DecodeRuneInString(s)
	if s == "" || n < len(s) {
		return dst, false
	}
	out, err := value.Append(dst, value.Char(c))
	return out, err == nil
}

func (d datum) encodeBoolean(dst []byte) ([]byte, bool) {
	switch {
	case d.kind == boolean:
		return value.AppendBool(dst, d.num == 1), true
	case d.kind == text && strings.EqualFold(d.text, "true"):
		return value.AppendBool(dst, true), true
	case d.kind == text && strings.EqualFold(d.text, "false"):
		return value.AppendBool(dst, false), true
	}
	return dst, false
}

func (d datum) encodeGUID(dst []byte) ([]byte, bool) {
	switch d.kind {
	case guid:
		return d.encode(dst), true
	case text:
		u, err := value.ParseUUID(strings.Trim(d.text, "{}"))
		if err == nil {
			return value.AppendUUID(dst, u), true
		}
		if b, err := hex.DecodeString(d.text); err == nil && len(b) == len(u) {
			return value.AppendUUID(dst, value.UUID(b)), true
		}
	}
	return dst, false
}

func (d datum) asInstant() (int64, bool) {
	switch d.kind {
	case instant:
		return d.int(), true
	case text:
		t, err := time.Parse(time.RFC3339Nano, d.text)
		if err != nil {
			return 0, false
		}
		return t.Unix()*ticksPerSecond + int64(t.Nanosecond())/int64(tick), true
	}
	return 0, false
}

// encodeDescribed does what encodeAs does, for an old value that is encoded as one of .NET's types.
func (d datum) encodeDescribed(dst, old []byte) ([]byte, bool) {
	raw, _, err := value.ReadRaw(old[1:])
	if err != nil {
		return dst, false
	}
	symbol, _, err := value.ReadSymbol(raw)
	if err != nil {
		return dst, false
	}
	switch string(symbol) {
	case descriptorTimeSpan:
		ticks := d.int()
		if d.kind == text {
			ticks, err = parseTimeSpan(d.text)
		}
		if err != nil || d.kind != text && d.kind != span {
			return dst, false
		}
		return value.AppendInt64(appendDescriptor(dst, descriptorTimeSpan), ticks), true
	case descriptorDateTimeOffset:
		at, ok := d.asInstant()
		if !ok {
			return dst, false
		}
		return value.AppendInt64(appendDescriptor(dst, descriptorDateTimeOffset), at+unixEpochTicks), true
	case descriptorURI:
		if d.kind != text {
			return dst, false
		}
		return value.AppendString(appendDescriptor(dst, descriptorURI), d.text), true
	}
	return dst, false
}
