package value

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
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

// elemCodes has the constructor of array elements by Kind: the widest, which has the highest code.
var elemCodes = func() (codes [KindDescribed]byte) {
	for code, kind := range kinds {
		if kind < KindDescribed {
			codes[kind] = byte(code)
		}
	}
	return codes
}()

func (e *encoder) array(a Array) {
	kind := a.elem()
	if kind < KindNull || kind > KindArray {
		e.fail("an array cannot have elements of type %s", kind)
		return
	}
	code := elemCodes[kind]
	if kind == KindBinary || kind == KindString || kind == KindSymbol {
		if !slices.ContainsFunc(a.Values, func(v any) bool { return textLen(v) > math.MaxUint8 }) {
			code &^= wide
		}
	}
	dst, mark := open(e.dst, codeArray8)
	e.dst = dst
	if a.Descriptor != nil {
		e.dst = append(e.dst, codeDescribed)
		e.value(a.Descriptor)
	}
	e.dst = append(e.dst, code)
	for _, v := range a.Values {
		if k := KindOfValue(v); k != kind {
			e.fail("an array of %s has an element of type %s", kind, k)
		}
		e.elem(code, v)
	}
	e.dst = closeCompound(e.dst, mark, len(a.Values))
}

func textLen(v any) int {
	switch v := v.(type) {
	case []byte:
		return len(v)
	case string:
		return len(v)
	case Symbol:
		return len(v)
	}
	return 0
}

func (e *encoder) elem(code byte, v any) {
	switch v := v.(type) {
	case bool:
		if v {
			e.dst = append(e.dst, 1)
		} else {
			e.dst = append(e.dst, 0)
		}
		return
	case uint32:
		e.dst = binary.BigEndian.AppendUint32(e.dst, v)
		return
	case uint64:
		e.dst = binary.BigEndian.AppendUint64(e.dst, v)
		return
	case int32:
		e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(v))
		return
	case int64:
		e.dst = binary.BigEndian.AppendUint64(e.dst, uint64(v))
		return
	}
	// Other types have one width; only their size and count may have another width than code says.
	start := len(e.dst)
	if e.value(v); e.err != nil {
		return
	}
	got := e.dst[start]
	if got == codeList0 {
		e.dst = append(e.dst[:start], codeList8, 1, 0)
		got = codeList8
	}
	if code >= codeBinary8 && code&wide != 0 && got&wide == 0 {
		e.dst = widen(e.dst, start)
	}
	e.dst = slices.Delete(e.dst, start, start+1)
}

// openSize is the length of a compound's constructor, size and count in their 8-bit form.
const openSize = 3

// OpenList begins a list. The caller appends elements, and then calls CloseList with mark.
func OpenList(dst []byte) (out []byte, mark int) { return open(dst, codeList8) }

func CloseList(dst []byte, mark, n int) []byte {
	if n == 0 {
		return append(dst[:mark], codeList0)
	}
	return closeCompound(dst, mark, n)
}

// OpenMap begins a map. Append distinct keys, each followed by its value, and call CloseMap.
func OpenMap(dst []byte) (out []byte, mark int) { return open(dst, codeMap8) }

// n is the number of entries.
func CloseMap(dst []byte, mark, n int) []byte { return closeCompound(dst, mark, 2*n) }

// AppendMapRaw appends a map with encoded values. Keys must differ; symbols makes them symbols.
func AppendMapRaw(dst []byte, entries iter.Seq2[[]byte, []byte], symbols bool) []byte {
	dst, mark := OpenMap(dst)
	n := 0
	for k, v := range entries {
		if symbols {
			dst = AppendSymbol(dst, k)
		} else {
			dst = AppendString(dst, k)
		}
		dst = append(dst, v...)
		n++
	}
	return CloseMap(dst, mark, n)
}

func open(dst []byte, code byte) ([]byte, int) {
	return append(dst, code, 0, 0), len(dst)
}

func closeCompound(dst []byte, mark, count int) []byte {
	size := len(dst) - mark - openSize + 1 // with the count
	if size <= math.MaxUint8 && count <= math.MaxUint8 {
		dst[mark+1], dst[mark+2] = byte(size), byte(count)
		return dst
	}
	return widenCompound(dst, mark, size, count)
}

// widenCompound changes size and count from one byte each to four bytes each.
func widenCompound(dst []byte, mark, size, count int) []byte {
	dst = slices.Insert(dst, mark+openSize, 0, 0, 0, 0, 0, 0)
	dst[mark] |= wide
	binary.BigEndian.PutUint32(dst[mark+1:], uint32(size-1+4))
	binary.BigEndian.PutUint32(dst[mark+5:], uint32(count))
	return dst
}

// widen changes the value at start, the last in dst, from its 8-bit form to its 32-bit form.
func widen(dst []byte, start int) []byte {
	size := int(dst[start+1])
	if dst[start] >= codeList8 {
		return widenCompound(dst, start, size, int(dst[start+2]))
	}
	dst = slices.Insert(dst, start+1, 0, 0, 0)
	binary.BigEndian.PutUint32(dst[start+1:], uint32(size))
	dst[start] |= wide
	return dst
}
