package builtin

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// integer returns n as a long, ulong or decimal128: the first of these that can hold it.
func (d *decoder) integer(n *big.Int) any {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.IsUint64():
		return n.Uint64()
	case n.BitLen() > 128:
		return d.fail(inexact)
	}
	return d.decimal128(n.String())
}

func (d *decoder) decimal128(s string) any {
	v, ok := value.ParseDecimal128(s)
	if !ok {
		return d.fail(inexact)
	}
	return v
}

// tagged converts v to the type that its CBOR tag declares.
func (d *decoder) tagged(tag uint64, v any) any {
	switch tag {
	case tagCBOR:
		return v
	case tagTimeText, tagTimeNumber:
		return d.instant(v)
	case tagBig, tagBigNegative:
		b, ok := v.([]byte)
		if !ok || len(b) > 16 {
			return d.fail(inexact)
		}
		n := new(big.Int).SetBytes(b)
		if tag == tagBigNegative {
			n.Not(n)
		}
		return d.integer(n)
	case tagDecimal:
		return d.decimal(v)
	case tagUUID:
		b, ok := v.([]byte)
		if !ok || len(b) != 16 {
			return d.fail("a UUID does not have 16 bytes")
		}
		return value.UUID(b)
	}
	return value.Described{Descriptor: tag, Value: v}
}

func (d *decoder) instant(v any) any {
	const most = math.MaxInt64/1000 - 1
	switch v := v.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return value.TimestampOf(t)
		}
	case int64:
		if v <= most && v >= -most {
			return value.Timestamp(v * 1000)
		}
	case float32:
		return d.instant(float64(v))
	case float64:
		if math.Abs(v) < 1<<40 { // until the year 36812, a double holds milliseconds
			return value.Timestamp(math.Round(v * 1000))
		}
	}
	return d.fail("a time is malformed")
}

func (d *decoder) decimal(v any) any {
	l, _ := v.(value.List)
	if len(l) != 2 {
		return d.fail(badNumber)
	}
	exponent, ok := l[0].(int64)
	if !ok {
		return d.fail(badNumber)
	}
	switch l[1].(type) {
	case int64, uint64, value.Decimal128:
	default:
		return d.fail(badNumber)
	}
	mantissa := value.Text(l[1])
	if strings.ContainsAny(mantissa, "E.") {
		return d.fail(inexact)
	}
	return d.decimal128(mantissa + "E" + strconv.FormatInt(exponent, 10))
}

func (d *decoder) fail(text string) any {
	d.Fail(text)
	return nil
}
