package value

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// openSize is the room that an open compound has for its constructor, size and count in their 8-bit form.
const openSize = 3

// OpenList starts a list at the end of dst, for elements that the caller appends. mark is for CloseList.
func OpenList(dst []byte) (out []byte, mark int) { return open(dst, codeList8) }

// CloseList ends the list that was opened at mark and has n elements.
func CloseList(dst []byte, mark, n int) []byte {
	if n == 0 {
		return append(dst[:mark], codeList0)
	}
	return closeCompound(dst, mark, n)
}

// OpenMap starts a map at the end of dst, for distinct keys and values that the caller appends in turn. mark is for
// CloseMap.
func OpenMap(dst []byte) (out []byte, mark int) { return open(dst, codeMap8) }

// CloseMap ends the map that was opened at mark and has n entries.
func CloseMap(dst []byte, mark, n int) []byte { return closeCompound(dst, mark, 2*n) }

// AppendMapRaw appends a map of entries whose values are encoded already. Keys are written as strings or, if symbols is
// true, as symbols; the caller vouches that they are distinct.
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

// closeCompound fills in the size and the count of the compound at mark, moving its elements if 8 bits are too few.
func closeCompound(dst []byte, mark, count int) []byte {
	size := len(dst) - mark - openSize + 1 // with the count
	if size <= math.MaxUint8 && count <= math.MaxUint8 {
		dst[mark+1], dst[mark+2] = byte(size), byte(count)
		return dst
	}
	dst = slices.Insert(dst, mark+openSize, 0, 0, 0, 0, 0, 0)
	dst[mark] |= wide
	binary.BigEndian.PutUint32(dst[mark+1:], uint32(size-1+4))
	binary.BigEndian.PutUint32(dst[mark+5:], uint32(count))
	return dst
}

// widen turns the variable-width or compound value at start, the last of dst, from its 8-bit into its 32-bit form.
func widen(dst []byte, start int) []byte {
	size := int(dst[start+1])
	if dst[start] < codeList8 {
		dst = slices.Insert(dst, start+1, 0, 0, 0)
		binary.BigEndian.PutUint32(dst[start+1:], uint32(size))
	} else {
		count := dst[start+2]
		dst = slices.Insert(dst, start+1, 0, 0, 0, 0, 0, 0)
		binary.BigEndian.PutUint32(dst[start+1:], uint32(size-1+4))
		binary.BigEndian.PutUint32(dst[start+5:], uint32(count))
	}
	dst[start] |= wide
	return dst
}
