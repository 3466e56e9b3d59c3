package value

import (
	"encoding/binary"
	"fmt"
	"math"
)

// elemCodes holds the constructor of array elements by their kind.
var elemCodes = [...]byte{
	KindNull: codeNull, KindBool: codeBool,
	KindUint8: codeUbyte, KindUint16: codeUshort, KindUint32: codeUint, KindUint64: codeUlong,
	KindInt8: codeByte, KindInt16: codeShort, KindInt32: codeInt, KindInt64: codeLong,
	KindFloat32: codeFloat, KindFloat64: codeDouble,
	KindDecimal32: codeDecimal32, KindDecimal64: codeDecimal64, KindDecimal128: codeDecimal128,
	KindChar: codeChar, KindTimestamp: codeTimestamp, KindUUID: codeUUID,
	KindBinary: codeBinary8, KindString: codeString8, KindSymbol: codeSymbol8, // widened for long elements
	KindList: codeList32, KindMap: codeMap32, KindArray: codeArray32,
}

func appendArray(dst []byte, a Array, depth int) ([]byte, error) {
	kind := a.elem()
	if kind < KindNull || kind > KindArray {
		return nil, fmt.Errorf("an array cannot have elements of type %s", kind)
	}
	code := elemCodes[kind]
	if code == codeBinary8 || code == codeString8 || code == codeSymbol8 {
		for _, v := range a.Values {
			if textLen(v) > math.MaxUint8 {
				code |= wide
				break
			}
		}
	}
	dst, mark := open(dst, codeArray8)
	if a.Descriptor != nil {
		var err error
		if dst, err = appendValue(append(dst, codeDescribed), a.Descriptor, depth); err != nil {
			return nil, err
		}
	}
	dst = append(dst, code)
	for _, v := range a.Values {
		if k := KindOfValue(v); k != kind {
			return nil, fmt.Errorf("an array of %s has an element of type %s", kind, k)
		}
		var err error
		if dst, err = appendElem(dst, code, v, depth); err != nil {
			return nil, err
		}
	}
	return closeCompound(dst, mark, len(a.Values)), nil
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

// appendElem appends the data of v in the form that the element constructor code announces.
func appendElem(dst []byte, code byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case uint32:
		return binary.BigEndian.AppendUint32(dst, v), nil
	case uint64:
		return binary.BigEndian.AppendUint64(dst, v), nil
	case int32:
		return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
	case int64:
		return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
	}
	// The others have one width, or differ from code only in the width of their size and count.
	start := len(dst)
	dst, err := appendValue(dst, v, depth)
	if err != nil {
		return nil, err
	}
	got := dst[start]
	if got == codeList0 {
		dst = append(dst[:start], codeList8, 1, 0)
		got = codeList8
	}
	if code >= codeBinary8 && code&wide != 0 && got&wide == 0 {
		dst = widen(dst, start)
	}
	return append(dst[:start], dst[start+1:]...), nil
}
