package value

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// The Append functions have the names of Go's types, which differ from AMQP's (see Kind). Each
// appends the smallest encoding.

func AppendNull(dst []byte) []byte { return append(dst, codeNull) }

func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

func AppendUint8(dst []byte, v uint8) []byte { return append(dst, codeUbyte, v) }

func AppendUint16(dst []byte, v uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, codeUshort), v)
}

func AppendUint32(dst []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(dst, codeUint0)
	case v <= math.MaxUint8:
		return append(dst, codeSmallUint, byte(v))
	default:
		return binary.BigEndian.AppendUint32(append(dst, codeUint), v)
	}
}

func AppendUint64(dst []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(dst, codeUlong0)
	case v <= math.MaxUint8:
		return append(dst, codeSmallUlong, byte(v))
	default:
		return binary.BigEndian.AppendUint64(append(dst, codeUlong), v)
	}
}

func AppendInt8(dst []byte, v int8) []byte { return append(dst, codeByte, byte(v)) }

func AppendInt16(dst []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, codeShort), uint16(v))
}

func AppendInt32(dst []byte, v int32) []byte {
	if v == int32(int8(v)) {
		return append(dst, codeSmallInt, byte(v))
	}
	return binary.BigEndian.AppendUint32(append(dst, codeInt), uint32(v))
}

func AppendInt64(dst []byte, v int64) []byte {
	if v == int64(int8(v)) {
		return append(dst, codeSmallLong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, codeLong), uint64(v))
}

func AppendFloat32(dst []byte, v float32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, codeFloat), math.Float32bits(v))
}

func AppendFloat64(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, codeDouble), math.Float64bits(v))
}

func AppendTimestamp(dst []byte, v Timestamp) []byte {
	return binary.BigEndian.AppendUint64(append(dst, codeTimestamp), uint64(v))
}

func AppendUUID(dst []byte, v UUID) []byte {
	return append(append(dst, codeUUID), v[:]...)
}

func AppendBinary(dst, v []byte) []byte {
	return append(AppendBinaryHead(dst, len(v)), v...)
}

// The caller must append the n bytes.
func AppendBinaryHead(dst []byte, n int) []byte { return appendSize(dst, codeBinary8, n) }

// v must be valid UTF-8: unlike Append, AppendString does not check this.
func AppendString[T ~string | ~[]byte](dst []byte, v T) []byte {
	return append(appendSize(dst, codeString8, len(v)), v...)
}

// v must be valid UTF-8: unlike Append, AppendSymbol does not check this.
func AppendSymbol[T ~string | ~[]byte](dst []byte, v T) []byte {
	return append(appendSize(dst, codeSymbol8, len(v)), v...)
}

// The caller must append the described value.
func AppendDescriptor(dst []byte, descriptor uint64) []byte {
	return AppendUint64(append(dst, codeDescribed), descriptor)
}

func appendSize(dst []byte, code byte, n int) []byte {
	if n <= math.MaxUint8 {
		return append(dst, code, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, code|wide), uint32(n))
}

// Append appends the smallest encoding of v, which must be of a type of this package. Only numbers
// in arrays have their full width: clients expect this, because Service Bus does the same. Append
// refuses values that Decode refuses with the default depth. After an error, it returns dst.
func Append(dst []byte, v any) ([]byte, error) {
	e := encoder{dst: dst}
	if e.value(v); e.err != nil {
		return dst, e.err
	}
	return e.dst, nil
}

// encoder keeps the first error, after which it appends nothing more.
type encoder struct {
	dst   []byte
	depth int
	err   error
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *encoder) value(v any) {
	if e.err != nil {
		return
	}
	switch v := v.(type) {
	case nil:
		e.dst = AppendNull(e.dst)
	case bool:
		e.dst = AppendBool(e.dst, v)
	case uint8:
		e.dst = AppendUint8(e.dst, v)
	case uint16:
		e.dst = AppendUint16(e.dst, v)
	case uint32:
		e.dst = AppendUint32(e.dst, v)
	case uint64:
		e.dst = AppendUint64(e.dst, v)
	case int8:
		e.dst = AppendInt8(e.dst, v)
	case int16:
		e.dst = AppendInt16(e.dst, v)
	case int32:
		e.dst = AppendInt32(e.dst, v)
	case int64:
		e.dst = AppendInt64(e.dst, v)
	case float32:
		e.dst = AppendFloat32(e.dst, v)
	case float64:
		e.dst = AppendFloat64(e.dst, v)
	case Decimal32:
		e.dst = append(append(e.dst, codeDecimal32), v[:]...)
	case Decimal64:
		e.dst = append(append(e.dst, codeDecimal64), v[:]...)
	case Decimal128:
		e.dst = append(append(e.dst, codeDecimal128), v[:]...)
	case Char:
		if v < 0 || v > utf8.MaxRune {
			e.fail("char %d is not a Unicode code point", v)
		}
		e.dst = binary.BigEndian.AppendUint32(append(e.dst, codeChar), uint32(v))
	case Timestamp:
		e.dst = AppendTimestamp(e.dst, v)
	case UUID:
		e.dst = AppendUUID(e.dst, v)
	case []byte:
		e.dst = AppendBinary(e.dst, v)
	case string:
		if !utf8.ValidString(v) {
			e.fail("string %.40q is not valid UTF-8", v)
		}
		e.dst = AppendString(e.dst, v)
	case Symbol:
		if !utf8.ValidString(string(v)) {
			e.fail("symbol %.40q is not valid UTF-8", string(v))
		}
		e.dst = AppendSymbol(e.dst, v)
	default:
		e.compound(v)
	}
}

func (e *encoder) compound(v any) {
	if e.depth++; e.depth > DefaultLimits.Depth {
		e.fail("the value is nested deeper than %d levels", DefaultLimits.Depth)
		return
	}
	switch v := v.(type) {
	case List:
		dst, mark := OpenList(e.dst)
		e.dst = dst
		for _, element := range v {
			e.value(element)
		}
		e.dst = CloseList(e.dst, mark, len(v))
	case Map:
		e.entries(v)
	case Array:
		e.array(v)
	case Described:
		e.dst = append(e.dst, codeDescribed)
		e.value(v.Descriptor)
		e.value(v.Value)
	default:
		e.fail("a value of Go type %T has no AMQP type", v)
	}
	e.depth--
}

func (e *encoder) entries(m Map) {
	dst, mark := OpenMap(e.dst)
	e.dst = dst
	for _, entry := range m {
		if k := KindOfValue(entry.Key); !isKey(k) {
			e.fail("a map key of Go type %T is not allowed", entry.Key)
		}
		e.value(entry.Key)
		e.value(entry.Value)
	}
	if e.err == nil && hasDuplicateKeys(e.dst[mark+openSize:], len(m)) {
		e.fail("a map has the same key twice")
	}
	e.dst = CloseMap(e.dst, mark, len(m))
}
