package frame

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// The formats of MessagePack that are not ranges.
const (
	packNil     = 0xc0
	packFalse   = 0xc2
	packTrue    = 0xc3
	packBin8    = 0xc4
	packBin16   = 0xc5
	packBin32   = 0xc6
	packExt8    = 0xc7
	packFloat32 = 0xca
	packFloat64 = 0xcb
	packUint8   = 0xcc
	packUint64  = 0xcf
	packInt8    = 0xd0
	packInt64   = 0xd3
	packFixExt4 = 0xd6
	packFixExt8 = 0xd7
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

	timestampType = 0xff // -1
)

// shape is what the first bytes of a value say of it.
type shape struct {
	kind Kind
	head int // bytes before the content
	size int // of the content in bytes; of a list or map the number of elements or members
}

// shapeAt reads the first bytes of the value at i.
func shapeAt(data []byte, i int) (s shape, err error) {
	if i >= len(data) {
		return s, malformed(i, "it ends too early")
	}
	c := data[i]
	switch {
	case c < packFixMap || c >= packFixNeg:
		return shape{Int, 1, 0}, nil
	case c < packFixList:
		return shape{Map, 1, int(c & 15)}, nil
	case c < packFixStr:
		return shape{List, 1, int(c & 15)}, nil
	case c < packNil:
		return shape{Text, 1, int(c & 31)}, nil
	}
	sized := func(kind Kind, width int) (shape, error) {
		n, ok := uintAt(data, i+1, width)
		if !ok || n > uint64(len(data)) { // each byte or element takes one at least
			return s, malformed(i, "%s has a size beyond the frame", kind)
		}
		return shape{kind, 1 + width, int(n)}, nil
	}
	switch {
	case c == packNil:
		return shape{Null, 1, 0}, nil
	case c == packFalse, c == packTrue:
		return shape{Bool, 1, 0}, nil
	case c >= packBin8 && c <= packBin32:
		return sized(Binary, 1<<(c-packBin8))
	case c == packFloat32:
		return shape{Float32, 1, 4}, nil
	case c == packFloat64:
		return shape{Float, 1, 8}, nil
	case c >= packUint8 && c <= packUint64:
		width := 1 << (c - packUint8)
		if n, _ := uintAt(data, i+1, width); n > math.MaxInt64 {
			return shape{Uint, 1, width}, nil
		}
		return shape{Int, 1, width}, nil
	case c >= packInt8 && c <= packInt64:
		return shape{Int, 1, 1 << (c - packInt8)}, nil
	case c >= packStr8 && c <= packStr32:
		return sized(Text, 1<<(c-packStr8))
	case c == packList16, c == packList32:
		return sized(List, 2<<(c-packList16))
	case c == packMap16, c == packMap32:
		return sized(Map, 2<<(c-packMap16))
	case c == packFixExt4, c == packFixExt8:
		s = shape{Instant, 2, 4 << (c - packFixExt4)}
	case c == packExt8 && i+1 < len(data) && data[i+1] == 12:
		s = shape{Instant, 3, 12}
	}
	if s.kind == Instant && i+s.head <= len(data) && data[i+s.head-1] == timestampType {
		return s, nil
	}
	return s, malformed(i, "format 0x%02x is not used here", c)
}

// uintAt reads a number of width bytes.
func uintAt(data []byte, i, width int) (n uint64, ok bool) {
	if i+width > len(data) {
		return 0, false
	}
	for _, c := range data[i : i+width] {
		n = n<<8 | uint64(c)
	}
	return n, true
}

// checkPack checks the value at i and returns where it ends. depth is its own,
// if it is a list or a map.
func checkPack(data []byte, i, depth int) (end int, err error) {
	s, err := shapeAt(data, i)
	if err != nil {
		return i, err
	}
	body := i + s.head
	if s.kind != List && s.kind != Map {
		if end = body + s.size; end > len(data) {
			return i, malformed(i, "%s goes beyond the frame", s.kind)
		}
		if s.kind == Text && !utf8.Valid(data[body:end]) {
			return i, malformed(i, "a text is not UTF-8")
		}
		return end, nil
	}
	if depth > maxNesting {
		return i, malformed(i, "it is nested deeper than %d", maxNesting)
	}
	for i = body; s.size > 0; s.size-- {
		if s.kind == Map {
			if i, err = checkPackKey(data, i); err != nil {
				return i, err
			}
		}
		if i, err = checkPack(data, i, depth+1); err != nil {
			return i, err
		}
	}
	return i, nil
}

func checkPackKey(data []byte, i int) (end int, err error) {
	s, err := shapeAt(data, i)
	if err != nil {
		return i, err
	}
	if s.kind != Text {
		return i, malformed(i, "a key is %s: it must be a text", s.kind)
	}
	return checkPack(data, i, 0)
}

func splitPack(data []byte, into []Member) ([]Member, error) {
	s, err := shapeAt(data, 0)
	if err != nil {
		return into, err
	}
	if s.kind != Map {
		return into, malformed(0, "it is not a MessagePack map")
	}
	i := s.head
	for ; s.size > 0; s.size-- {
		end, err := checkPackKey(data, i)
		if err != nil {
			return into, err
		}
		k, _ := shapeAt(data, i)
		key := string(data[i+k.head : end])
		i = end
		if end, err = checkPack(data, i, 2); err != nil {
			return into, err
		}
		into = append(into, Member{key, data[i:end:end]})
		i = end
	}
	if i != len(data) {
		return into, malformed(i, "something follows the map")
	}
	return into, nil
}

// packReader reads a value that was checked.
type packReader struct {
	data []byte
	pos  int
	left []int // elements or members left, of each list and map that was entered
}

func (r *packReader) shape() shape {
	s, _ := shapeAt(r.data, r.pos)
	return s
}

// Kind implements Reader.
func (r *packReader) Kind() Kind { return r.shape().kind }

// content passes over a value that is no list or map, and returns its bytes behind the head.
func (r *packReader) content() []byte {
	s := r.shape()
	start := r.pos + s.head
	r.pos = start + s.size
	return r.data[start:r.pos:r.pos]
}

// Null implements Reader.
func (r *packReader) Null() { r.pos++ }

// Bool implements Reader.
func (r *packReader) Bool() bool {
	r.pos++
	return r.data[r.pos-1] == packTrue
}

// Int implements Reader.
func (r *packReader) Int() int64 {
	c := r.data[r.pos]
	b := r.content()
	if len(b) == 0 {
		return int64(int8(c)) // the value itself
	}
	n, _ := uintAt(b, 0, len(b))
	if c <= packUint64 {
		return int64(n)
	}
	shift := 64 - 8*len(b)
	return int64(n) << shift >> shift
}

// Uint implements Reader.
func (r *packReader) Uint() uint64 { return binary.BigEndian.Uint64(r.content()) }

// Float implements Reader.
func (r *packReader) Float() (float64, bool) {
	b := r.content()
	if len(b) == 4 {
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b))), true
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), true
}

// Text implements Reader.
func (r *packReader) Text() []byte { return r.content() }

// Binary implements Reader.
func (r *packReader) Binary() []byte { return r.content() }

// Instant implements Reader.
func (r *packReader) Instant() (ms int64, ok bool) {
	b := r.content()
	var seconds int64
	var nanos uint64
	switch len(b) {
	case 4:
		seconds = int64(binary.BigEndian.Uint32(b))
	case 8: // 30 bits of nanoseconds, 34 of seconds
		n := binary.BigEndian.Uint64(b)
		seconds, nanos = int64(n&(1<<34-1)), n>>34
	default:
		seconds, nanos = int64(binary.BigEndian.Uint64(b[4:])), uint64(binary.BigEndian.Uint32(b))
	}
	const most = math.MaxInt64/1000 - 1
	if seconds > most || seconds < -most || nanos > 999_999_999 {
		return 0, false
	}
	return seconds*1000 + int64(nanos/1e6), true
}

// Open implements Reader.
func (r *packReader) Open() {
	s := r.shape()
	r.pos += s.head
	r.left = append(r.left, s.size)
}

// More implements Reader.
func (r *packReader) More() bool {
	last := len(r.left) - 1
	if r.left[last] == 0 {
		r.left = r.left[:last]
		return false
	}
	r.left[last]--
	return true
}

// Key implements Reader.
func (r *packReader) Key() []byte { return r.content() }

// Only implements Reader.
func (r *packReader) Only() bool { return r.left[len(r.left)-1] == 0 }

// Skip implements Reader.
func (r *packReader) Skip() []byte {
	end, _ := checkPack(r.data, r.pos, math.MinInt)
	raw := r.data[r.pos:end:end]
	r.pos = end
	return raw
}
