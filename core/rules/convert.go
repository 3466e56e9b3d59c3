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
		return value.AppendInt64(appendDescriptor(dst, value.DescriptorTimeSpan), d.int())
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

// cutDescriptor returns the symbol of a described value, or "", and the value inside it.
func cutDescriptor(described []byte) (symbol value.Symbol, inner []byte) {
	descriptor, inner, err := value.ReadRaw(described[1:])
	if err != nil {
		return "", nil
	}
	raw, _, _ := value.ReadSymbol(descriptor)
	return value.Symbol(value.Alias(raw)), inner
}

func appendDescriptor(dst []byte, symbol value.Symbol) []byte {
	const described = 0x00 // AMQP 1.0 §1.2: the constructor of a described value
	return value.AppendSymbol(append(dst, described), symbol)
}

// kindOf has the kind to which a datum is converted before it is encoded as one of these types.
var kindOf = map[value.Kind]kind{
	value.KindString: text, value.KindSymbol: text, value.KindChar: text, value.KindFloat32: real, value.KindFloat64: real,
	value.KindBool: boolean, value.KindTimestamp: instant, value.KindUUID: guid,
}

// encodeAs encodes d as the type of the encoded value old. ok is false if d cannot have this type.
func (d datum) encodeAs(dst, old []byte) (out []byte, ok bool) {
	of := value.KindOf(old)
	switch {
	case integerEncodings[of] != nil:
		return integerEncodings[of](d, dst)
	case of == value.KindDescribed:
		return d.encodeDescribed(dst, old)
	}
	if d, ok = d.as(kindOf[of]); !ok {
		return dst, false
	}
	switch of {
	case value.KindSymbol:
		return value.AppendSymbol(dst, d.text), true
	case value.KindChar:
		c, n := utf8.DecodeRuneInString(d.text)
		if d.text == "" || n < len(d.text) {
			return dst, false
		}
		out, err := value.Append(dst, value.Char(c))
		return out, err == nil
	case value.KindFloat32:
		return value.AppendFloat32(dst, float32(d.real())), true
	}
	return d.encode(dst), true
}

// encodeDescribed does what encodeAs does, for an old value that is encoded as one of .NET's types.
func (d datum) encodeDescribed(dst, old []byte) (out []byte, ok bool) {
	switch symbol, _ := cutDescriptor(old); symbol {
	case value.DescriptorTimeSpan:
		d, ok = d.as(span)
		return d.encode(dst), ok
	case value.DescriptorDateTimeOffset:
		d, ok = d.as(instant)
		return value.AppendInt64(appendDescriptor(dst, symbol), d.int()+unixEpochTicks), ok
	case value.DescriptorURI:
		return value.AppendString(appendDescriptor(dst, symbol), d.text), d.kind == text
	}
	return dst, false
}

// as converts d to the kind k, if that is possible.
func (d datum) as(k kind) (converted datum, ok bool) {
	switch {
	case k == absent:
		return d, false
	case d.kind == k:
		return d, true
	case k == text:
		s, ok := d.render()
		return textOf(s), ok
	case k == real:
		d, ok = d.asNumber()
		return realOf(d.real()), ok
	case d.kind != text:
		return d, false
	}
	var err error
	switch k {
	case boolean:
		yes := strings.EqualFold(d.text, "true")
		return booleanOf(yes), yes || strings.EqualFold(d.text, "false")
	case instant:
		var t time.Time
		t, err = time.Parse(time.RFC3339Nano, d.text)
		d = instantOf(t.Unix()*ticksPerSecond + int64(t.Nanosecond())/int64(tick))
	case span:
		var ticks int64
		ticks, err = parseTimeSpan(d.text)
		d = spanOf(ticks)
	case guid:
		var u value.UUID
		if u, err = value.ParseUUID(strings.Trim(d.text, "{}")); err != nil {
			var b []byte
			if b, err = hex.DecodeString(d.text); len(b) != len(u) {
				return d, false
			}
			u = value.UUID(b)
		}
		d = datum{kind: guid, text: string(u[:])}
	}
	return d, err == nil
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
