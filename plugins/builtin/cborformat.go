package builtin

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func encodeCBOR(contentType string, v any) (payload []byte, produced string, err error) {
	w := cborWriter{walk: walk{left: maxDepth}}
	w.write(v)
	return w.dst, contentType, w.err
}

// Tags of RFC 8949 §3.4. The tag of UUIDs is registered with IANA.
const (
	tagTimeText    = 0
	tagTimeNumber  = 1
	tagBig         = 2
	tagBigNegative = 3
	tagDecimal     = 4
	tagUUID        = 37
	tagCBOR        = 55799
)

type cborWriter struct {
	dst []byte
	walk
}

func (w *cborWriter) write(v any) {
	if d, ok := v.(value.Described); ok {
		if tag, ok := d.Descriptor.(uint64); ok {
			w.head(codec.CBORTag, tag)
			w.elements(value.List{d.Value}, w.write)
			return
		}
	}
	v, err := simplified(v)
	if err != nil {
		w.fail(err)
		return
	}
	switch v := v.(type) {
	case nil:
		w.dst = append(w.dst, codec.CBORSimple<<5|22)
	case bool:
		simple := byte(20)
		if v {
			simple = 21
		}
		w.dst = append(w.dst, codec.CBORSimple<<5|simple)
	case int64:
		w.int(v)
	case uint64:
		w.head(codec.CBORUnsigned, v)
	case float32:
		w.dst = binary.BigEndian.AppendUint32(append(w.dst, codec.CBORSimple<<5|26), math.Float32bits(v))
	case float64:
		w.float(v)
	case string:
		v = strings.ToValidUTF8(v, "\uFFFD")
		w.head(codec.CBORText, uint64(len(v)))
		w.dst = append(w.dst, v...)
	case []byte:
		w.bytes(v)
	case value.UUID:
		w.head(codec.CBORTag, tagUUID)
		w.bytes(v[:])
	case value.Timestamp:
		w.time(v)
	case value.List:
		w.head(codec.CBORList, uint64(len(v)))
		w.elements(v, w.write)
	case value.Map:
		w.head(codec.CBORMap, uint64(len(v)))
		w.entries(v, 1, w.write) // a key may have one level, because a decimal is written as a list
	default:
		w.decimal(value.Text(v))
	}
}

func (w *cborWriter) head(major byte, n uint64) {
	if n < 24 {
		w.dst = append(w.dst, major<<5|byte(n))
	} else {
		w.dst = codec.AppendNumber(w.dst, major<<5|24, n, bits.Len64(n))
	}
}

func (w *cborWriter) int(n int64) {
	if n < 0 {
		w.head(codec.CBORNegative, uint64(-1-n))
	} else {
		w.head(codec.CBORUnsigned, uint64(n))
	}
}

func (w *cborWriter) float(f float64) {
	w.dst = binary.BigEndian.AppendUint64(append(w.dst, codec.CBORSimple<<5|27), math.Float64bits(f))
}

func (w *cborWriter) bytes(b []byte) {
	w.head(codec.CBORBytes, uint64(len(b)))
	w.dst = append(w.dst, b...)
}

func (w *cborWriter) time(t value.Timestamp) {
	w.head(codec.CBORTag, tagTimeNumber)
	if t%1000 != 0 && math.Abs(float64(t)) < 1000<<40 {
		w.float(float64(t) / 1000)
	} else {
		w.int(int64(t) / 1000) // from the year 36812 on, a double cannot hold milliseconds
	}
}

// decimal writes a decimal. If it is NaN or infinite, it becomes a float.
func (w *cborWriter) decimal(s string) {
	if f, err := strconv.ParseFloat(s, 32); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		w.write(float32(f))
		return
	}
	mantissa, power, _ := strings.Cut(s, "E")
	exponent, err := strconv.ParseInt(cmp.Or(power, "0"), 10, 64)
	if err != nil {
		w.fail(fmt.Errorf("the exponent of the decimal %s is not valid: %w", s, err))
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		w.fail(fmt.Errorf("the decimal %s is malformed", s))
		return
	}
	w.head(codec.CBORTag, tagDecimal)
	w.head(codec.CBORList, 2)
	w.int(exponent - int64(len(fraction)))
	switch {
	case n.IsInt64():
		w.int(n.Int64())
		return
	case n.Sign() < 0:
		w.head(codec.CBORTag, tagBigNegative)
		n.Not(n)
	default:
		w.head(codec.CBORTag, tagBig)
	}
	w.bytes(n.Bytes())
}

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
