package value

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
)

// Decode decodes the first value of b if Skip accepts it. v shares no memory with b.
func Decode(b []byte, lim Limits) (v any, rest []byte, err error) {
	rest, err = Skip(b, lim)
	if err != nil {
		return nil, nil, err
	}
	v, _ = build(b)
	return v, rest, nil
}

// build is Decode for bytes that Skip has accepted.
func build(b []byte) (v any, rest []byte) {
	code := b[0]
	if code == codeDescribed {
		var d Described
		d.Descriptor, rest = build(b[1:])
		d.Value, rest = build(rest)
		return d, rest
	}
	return buildData(code, b[1:])
}

func buildData(code byte, b []byte) (v any, rest []byte) {
	data, rest := content(code, b), b[dataExtent(code, b):]
	switch kinds[code] {
	case KindBool:
		v = unsigned(code, data) == 1
	case KindUint8:
		v = data[0]
	case KindUint16:
		v = uint16(unsigned(code, data))
	case KindUint32:
		v = uint32(unsigned(code, data))
	case KindUint64:
		v = unsigned(code, data)
	case KindInt8:
		v = int8(data[0])
	case KindInt16:
		v = int16(signed(data))
	case KindInt32:
		v = int32(signed(data))
	case KindInt64:
		v = signed(data)
	case KindFloat32:
		v = math.Float32frombits(binary.BigEndian.Uint32(data))
	case KindFloat64:
		v = math.Float64frombits(binary.BigEndian.Uint64(data))
	case KindDecimal32:
		v = Decimal32(data)
	case KindDecimal64:
		v = Decimal64(data)
	case KindDecimal128:
		v = Decimal128(data)
	case KindChar:
		v = Char(binary.BigEndian.Uint32(data))
	case KindTimestamp:
		v = Timestamp(signed(data))
	case KindUUID:
		v = UUID(data)
	case KindBinary:
		v = append([]byte{}, data...)
	case KindString:
		v = string(data)
	case KindSymbol:
		v = Symbol(data)
	case KindList:
		v = buildList(code, data)
	case KindMap:
		v = buildMap(code, data)
	case KindArray:
		v = buildArray(code, data)
	}
	return v, rest
}

// counted splits a compound into count and elements. ok is false if the data end within the count.
func counted(code byte, data []byte) (n uint64, elements []byte, ok bool) {
	switch {
	case code == codeList0:
		return 0, nil, true
	case code&wide == 0 && len(data) >= 1:
		return uint64(data[0]), data[1:], true
	case code&wide != 0 && len(data) >= 4:
		return uint64(binary.BigEndian.Uint32(data)), data[4:], true
	}
	return 0, nil, false
}

func buildList(code byte, data []byte) List {
	n, data, _ := counted(code, data)
	l := make(List, n)
	for i := range l {
		l[i], data = build(data)
	}
	return l
}

func buildMap(code byte, data []byte) Map {
	n, data, _ := counted(code, data)
	m := make(Map, n/2)
	for i := range m {
		m[i].Key, data = build(data)
		m[i].Value, data = build(data)
	}
	return m
}

func buildArray(code byte, data []byte) Array {
	n, data, _ := counted(code, data)
	a := Array{Values: make([]any, n)}
	if data[0] == codeDescribed {
		a.Descriptor, data = build(data[1:])
	}
	elem := data[0]
	a.Elem, data = kinds[elem], data[1:]
	for i := range a.Values {
		a.Values[i], data = buildData(elem, data)
	}
	return a
}

// Error says where bytes are not a valid encoding, or not one of the requested type.
type Error struct {
	Offset int // in bytes, from the start of the input
	Msg    string
}

func (e *Error) Error() string { return fmt.Sprintf("value at byte %d: %s", e.Offset, e.Msg) }

func fail(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// Limits limit the values that Decode and Skip accept. A field of 0 or less means its default.
type Limits struct {
	Depth    int // of nested lists, maps, arrays and descriptors; the outermost has depth 1
	Elements int // total of all lists, maps (keys and values) and arrays
}

var DefaultLimits = Limits{Depth: 32, Elements: 65536}

func (l Limits) orDefault() Limits {
	return Limits{
		Depth:    cmp.Or(max(l.Depth, 0), DefaultLimits.Depth),
		Elements: cmp.Or(max(l.Elements, 0), DefaultLimits.Elements),
	}
}
