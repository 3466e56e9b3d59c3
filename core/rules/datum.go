package rules

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// kind is the family of a datum. Data of one family are compared by value. Data of two families
// cannot be compared, except numbers: integer, huge and real.
type kind uint8

const (
	absent  kind = iota // the property does not exist
	null                // the property has no value
	boolean             // num: 0 or 1
	integer             // num: an int64; every integer that fits
	huge                // num: a uint64 that is too large for an int64
	real                // num: the bits of a float64
	text                // a string, symbol, char or URI
	instant             // num: an int64, the ticks since the Unix epoch
	span                // num: an int64, the ticks
	guid                // text: 16 bytes
	binary              // text: the bytes
	opaque              // text: the encoding of a list, a map, an array or a value with an unknown descriptor
)

// datum is a value in a computation. It may share memory with its message, which does not change.
type datum struct {
	kind kind
	num  uint64
	text string
}

// A tick is .NET's unit of time, 100 ns. .NET and messages count the ticks of an instant from the
// year 1, this package counts them from 1970.
const (
	tick           = 100 * time.Nanosecond
	ticksPerSecond = int64(value.TicksPerSecond)
	ticksPerMilli  = int64(time.Millisecond / tick)
	unixEpochTicks = 621_355_968_000_000_000
)

func booleanOf(b bool) datum {
	if b {
		return datum{kind: boolean, num: 1}
	}
	return datum{kind: boolean}
}

func integerOf(n int64) datum { return datum{kind: integer, num: uint64(n)} }

func realOf(f float64) datum { return datum{kind: real, num: math.Float64bits(f)} }

func textOf(s string) datum { return datum{kind: text, text: s} }

func spanOf(ticks int64) datum { return datum{kind: span, num: uint64(ticks)} }

func instantOf(ticks int64) datum { return datum{kind: instant, num: uint64(ticks)} }

func unsignedOf(n uint64) datum {
	if n > math.MaxInt64 {
		return datum{kind: huge, num: n}
	}
	return datum{kind: integer, num: n}
}

func setInstantOf(t time.Time) datum {
	if t.IsZero() {
		return datum{kind: null}
	}
	return instantOf(t.Unix()*ticksPerSecond + int64(t.Nanosecond())/int64(tick))
}

func setSpanOf(d time.Duration) datum {
	switch {
	case d == 0:
		return datum{kind: null}
	case d >= core.Forever:
		return spanOf(math.MaxInt64)
	default:
		return spanOf(int64(d / tick))
	}
}

func (d datum) isUnknown() bool { return d.kind <= null }

func (d datum) isNumber() bool { return d.kind >= integer && d.kind <= real }

func (d datum) int() int64 { return int64(d.num) }

func (d datum) real() float64 {
	switch d.kind {
	case integer:
		return float64(d.int())
	case huge:
		return float64(d.num)
	default:
		return math.Float64frombits(d.num)
	}
}

// Common types take no allocation.
func decode(raw []byte) datum {
	switch value.KindOf(raw) {
	case value.KindNull:
		return datum{kind: null}
	case value.KindBool:
		return booleanOf(value.Bits(raw) == 1)
	case value.KindUint8, value.KindUint16, value.KindUint32, value.KindUint64:
		return unsignedOf(value.Bits(raw))
	case value.KindInt8, value.KindInt16, value.KindInt32, value.KindInt64:
		return integerOf(int64(value.Bits(raw)))
	case value.KindFloat32:
		return realOf(float64(math.Float32frombits(uint32(value.Bits(raw)))))
	case value.KindFloat64:
		return realOf(math.Float64frombits(value.Bits(raw)))
	case value.KindChar:
		return textOf(string(rune(value.Bits(raw))))
	case value.KindTimestamp:
		return instantOf(saturatedTicks(int64(value.Bits(raw))))
	case value.KindUUID:
		return datum{kind: guid, text: value.Alias(raw[1:])}
	case value.KindBinary:
		v, _, _ := value.ReadBinary(raw)
		return datum{kind: binary, text: value.Alias(v)}
	case value.KindString, value.KindSymbol:
		v, _, _ := value.ReadText(raw)
		return textOf(value.Alias(v))
	case value.KindDescribed:
		return decodeDescribed(raw)
	}
	switch v, _, _ := value.Decode(raw, value.Limits{}); v := v.(type) {
	case nil: // the encoding is invalid
		return datum{kind: null}
	case value.Decimal32:
		return realOf(v.Float64())
	case value.Decimal64:
		return realOf(v.Float64())
	case value.Decimal128:
		return realOf(v.Float64())
	}
	return datum{kind: opaque, text: value.Alias(raw)}
}

// A described value of a .NET type becomes the value inside it; any other becomes opaque.
func decodeDescribed(raw []byte) datum {
	unknown := datum{kind: opaque, text: value.Alias(raw)}
	symbol, inner := cutDescriptor(raw)
	if symbol == "" {
		return unknown
	}
	switch d := decode(inner); {
	case symbol == value.DescriptorTimeSpan && d.kind == integer:
		return spanOf(d.int())
	case symbol == value.DescriptorDateTimeOffset && d.kind == integer:
		return instantOf(d.int() - unixEpochTicks)
	case symbol == value.DescriptorURI && d.kind == text:
		return d
	case symbol == value.DescriptorDateTime && d.kind == text:
		if t, _, err := value.ParseDateTime(d.text); err == nil {
			return setInstantOf(t)
		}
	}
	return unknown
}

func saturatedTicks(millis int64) int64 {
	switch {
	case millis > math.MaxInt64/ticksPerMilli:
		return math.MaxInt64
	case millis < math.MinInt64/ticksPerMilli:
		return math.MinInt64
	default:
		return millis * ticksPerMilli
	}
}

// parseTimeSpan parses ISO 8601 (PT5M) or the form of .NET (00:05:00) into ticks.
func parseTimeSpan(s string) (int64, error) {
	if strings.HasPrefix(s, "P") {
		ticks, err := core.ParseTicks(s)
		if err != nil {
			return 0, fmt.Errorf("%.40q is not a duration: %w", s, err)
		}
		return ticks, nil
	}
	ticks, err := value.ParseTimeSpan(s)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a duration such as PT5M or 00:05:00", s)
	}
	return ticks, nil
}
