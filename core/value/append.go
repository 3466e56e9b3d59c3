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
	out, err := appendValue(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return AppendNull(dst), nil
	case bool:
		return AppendBool(dst, v), nil
	case uint8:
		return AppendUint8(dst, v), nil
	case uint16:
		return AppendUint16(dst, v), nil
	case uint32:
		return AppendUint32(dst, v), nil
	case uint64:
		return AppendUint64(dst, v), nil
	case int8:
		return AppendInt8(dst, v), nil
	case int16:
		return AppendInt16(dst, v), nil
	case int32:
		return AppendInt32(dst, v), nil
	case int64:
		return AppendInt64(dst, v), nil
	case float32:
		return AppendFloat32(dst, v), nil
	case float64:
		return AppendFloat64(dst, v), nil
	case Decimal32:
		return append(append(dst, codeDecimal32), v[:]...), nil
	case Decimal64:
		return append(append(dst, codeDecimal64), v[:]...), nil
	case Decimal128:
		return append(append(dst, codeDecimal128), v[:]...), nil
	case Char:
		if v < 0 || v > utf8.MaxRune {
			return nil, fmt.Errorf("char %d is not a Unicode code point", v)
		}
		return binary.BigEndian.AppendUint32(append(dst, codeChar), uint32(v)), nil
	case Timestamp:
		return AppendTimestamp(dst, v), nil
	case UUID:
		return AppendUUID(dst, v), nil
	case []byte:
		return AppendBinary(dst, v), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("string %.40q is not valid UTF-8", v)
		}
		return AppendString(dst, v), nil
	case Symbol:
		if !utf8.ValidString(string(v)) {
			return nil, fmt.Errorf("symbol %.40q is not valid UTF-8", string(v))
		}
		return AppendSymbol(dst, v), nil
	}
	if depth++; depth > DefaultLimits.Depth {
		return nil, fmt.Errorf("the value is nested deeper than %d levels", DefaultLimits.Depth)
	}
	switch v := v.(type) {
	case List:
		return appendList(dst, v, depth)
	case Map:
		return appendMap(dst, v, depth)
	case Array:
		return appendArray(dst, v, depth)
	case Described:
		dst, err := appendValue(append(dst, codeDescribed), v.Descriptor, depth)
		if err != nil {
			return nil, err
		}
		return appendValue(dst, v.Value, depth)
	}
	return nil, fmt.Errorf("a value of Go type %T has no AMQP type", v)
}

func appendList(dst []byte, l List, depth int) ([]byte, error) {
	dst, mark := OpenList(dst)
	for _, v := range l {
		var err error
		if dst, err = appendValue(dst, v, depth); err != nil {
			return nil, err
		}
	}
	return CloseList(dst, mark, len(l)), nil
}

func appendMap(dst []byte, m Map, depth int) ([]byte, error) {
	dst, mark := OpenMap(dst)
	for _, e := range m {
		if k := KindOfValue(e.Key); !isKey(k) {
			return nil, fmt.Errorf("a map key of Go type %T is not allowed", e.Key)
		}
		var err error
		if dst, err = appendValue(dst, e.Key, depth); err != nil {
			return nil, err
		}
		if dst, err = appendValue(dst, e.Value, depth); err != nil {
			return nil, err
		}
	}
	if hasDuplicateKeys(dst[mark+openSize:], len(m)) {
		return nil, fmt.Errorf("a map has the same key twice")
	}
	return CloseMap(dst, mark, len(m)), nil
}
