package codec

import (
	"encoding/binary"
	"math"
)

// The first bytes of MessagePack values. Some are the first of a range.
const (
	packNil     = 0xc0
	packFalse   = 0xc2
	packTrue    = 0xc3
	packBin8    = 0xc4
	packBin32   = 0xc6
	packExt8    = 0xc7
	packExt32   = 0xc9
	packFloat32 = 0xca
	packFloat64 = 0xcb
	packUint8   = 0xcc
	packUint64  = 0xcf
	packInt8    = 0xd0
	packInt64   = 0xd3
	packFixExt1 = 0xd4
	packFixExt  = 0xd8
	packStr8    = 0xd9
	packStr32   = 0xdb
	packList16  = 0xdc
	packList32  = 0xdd
	packMap16   = 0xde
	packMap32   = 0xdf

	packFixMap  = 0x80
	packFixList = 0x90
	packFixStr  = 0xa0
	packFixNeg  = 0xe0

	timestampType = -1
)

// formats has a shape for each first byte. If width is not 0, the next width bytes hold the size.
var formats = func() (all [256]struct {
	shape
	width int
},
) {
	set := func(from, to int, k Kind, size func(i int) int) {
		for c := from; c <= to; c++ {
			all[c].shape = shape{k, 1, size(c - from)}
		}
	}
	sized := func(from, to int, k Kind, least int) {
		for c := from; c <= to; c++ {
			width := least << (c - from)
			all[c].shape, all[c].width = shape{k, uint8(1 + width), 0}, width
		}
	}
	none := func(int) int { return 0 }
	count := func(i int) int { return i }
	power := func(i int) int { return 1 << i }
	set(0, packFixMap-1, Int, none)
	set(packFixNeg, 255, Int, none)
	set(packFixMap, packFixList-1, Map, count)
	set(packFixList, packFixStr-1, List, count)
	set(packFixStr, packNil-1, Text, count)
	set(packNil, packNil, Null, none)
	set(packFalse, packTrue, Bool, none)
	set(packFloat32, packFloat32, Float32, func(int) int { return 4 })
	set(packFloat64, packFloat64, Float, func(int) int { return 8 })
	set(packUint8, packUint64, Int, power)
	set(packInt8, packInt64, Int, power)
	set(packFixExt1, packFixExt, Extension, power)
	sized(packBin8, packBin32, Binary, 1)
	sized(packExt8, packExt32, Extension, 1)
	sized(packStr8, packStr32, Text, 1)
	sized(packList16, packList32, List, 2)
	sized(packMap16, packMap32, Map, 2)
	return all
}()

func (r *Reader) lookPack() {
	if r.pos >= len(r.data) {
		r.Fail(CutShort)
		return
	}
	c := r.data[r.pos]
	f := &formats[c]
	s := f.shape
	if c < packNil && s.size < len(r.data)-r.pos { // the first byte contains size and kind
		r.head = s
		return
	}
	if f.width > 0 {
		n, ok := uintAt(r.data, r.pos+1, f.width)
		if !ok {
			r.Fail(CutShort)
			return
		}
		s.size = int(n)
	}
	switch {
	case s.kind == 0:
		r.Fail("a value begins with the byte 0xc1, which MessagePack does not use")
	case s.kind == Extension:
		s = r.extended(s)
	case c == packUint64:
		if n, _ := uintAt(r.data, r.pos+1, s.size); n > math.MaxInt64 {
			s.kind = Uint
		}
	}
	if s.size > len(r.data)-r.pos-int(s.head) { // each element takes at least one byte
		r.Fail(CutShort)
	}
	if r.err == nil {
		r.head = s
	}
}

func (r *Reader) extended(s shape) shape {
	s.head++
	if at := r.pos + int(s.head) - 1; at < len(r.data) && int8(r.data[at]) == timestampType {
		if s.kind = Instant; s.size != 4 && s.size != 8 && s.size != 12 {
			r.Fail("a timestamp has an unknown length")
		}
	} else if r.o.Frame {
		r.Fail("the only extension that is supported is the timestamp")
	}
	return s
}

func uintAt(data []byte, i, width int) (n uint64, ok bool) {
	if i+width > len(data) {
		return 0, false
	}
	for _, c := range data[i : i+width] {
		n = n<<8 | uint64(c)
	}
	return n, true
}

// packInt decodes an integer from its first byte c and the bytes after it.
func packInt(c byte, content []byte) int64 {
	if len(content) == 0 {
		return int64(int8(c)) // the byte itself is the value
	}
	n, _ := uintAt(content, 0, len(content))
	if c <= packUint64 {
		return int64(n)
	}
	shift := 64 - 8*len(content)
	return int64(n) << shift >> shift
}

// Instant returns milliseconds since the Unix epoch. ok is false if an int64 cannot hold them.
func (r *Reader) Instant() (ms int64, ok bool) {
	b := r.content()
	var seconds int64
	var nanos uint64
	switch len(b) {
	case 4:
		seconds = int64(binary.BigEndian.Uint32(b))
	case 8: // 30 bits of nanoseconds, 34 bits of seconds
		n := binary.BigEndian.Uint64(b)
		seconds, nanos = int64(n&(1<<34-1)), n>>34
	default:
		seconds, nanos = int64(binary.BigEndian.Uint64(b[4:])), uint64(binary.BigEndian.Uint32(b))
	}
	if seconds > math.MaxInt64/1000-1 || seconds < math.MinInt64/1000 || nanos > 999_999_999 {
		return 0, false
	}
	return seconds*1000 + int64(nanos/1e6), true
}

func (r *Reader) Extension() (kind int8, data []byte) {
	at := r.pos + int(r.head.head) - 1
	return int8(r.data[at]), r.content()
}
