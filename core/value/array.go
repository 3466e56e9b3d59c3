package value

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

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
