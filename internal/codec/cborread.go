package codec

import "math"

// The major types of CBOR, RFC 8949 §3.1.
const (
	CBORUnsigned = iota
	CBORNegative
	CBORBytes
	CBORText
	CBORList
	CBORMap
	CBORTag
	CBORSimple
)

var (
	cborKinds  = [...]Kind{Int, Int, Binary, Text, List, Map, Tag, 0}
	cborSimple = [32]Kind{20: Bool, 21: Bool, 22: Null, 23: Null, 25: Float32, 26: Float32, 27: Float} // 23 is "undefined"
)

const (
	StrayBreak = "a break code is outside of an indefinite-length value"

	cborBreak    = 0xff
	cborTrue     = 0xf5
	cborUnknown  = 31 // in the low bits of the first byte: the length is unknown, and a break ends the value
	cborReserved = 28 // the first of the reserved values, which end before cborUnknown
)

// lookCBOR finds the kind and the size of the next value. The argument of a number is its content;
// that of another value belongs to its head.
func (r *Reader) lookCBOR() {
	r.joined = nil
	if r.pos >= len(r.data) {
		r.Fail(CutShort)
		return
	}
	c := r.data[r.pos]
	major, info := c>>5, c&0x1f
	if major >= CBORBytes && major <= CBORMap && info < 24 && int(info) < len(r.data)-r.pos { // the usual case
		r.head = shape{cborKinds[major], 1, int(info)}
		return
	}
	n, next := cborArgument(r.data, r.pos)
	s, wrong := shape{cborKinds[major], uint8(next - r.pos), 0}, ""
	switch {
	case c == cborBreak && len(r.open) > 0 && r.open[len(r.open)-1] < 0:
		wrong = "a map ends after a key"
	case c == cborBreak:
		wrong = StrayBreak
	case info == cborUnknown && (major == CBORBytes || major == CBORText):
		r.join(major)
		return
	case info == cborUnknown && (major == CBORList || major == CBORMap):
		s.size = -1
	case info >= cborReserved:
		wrong = "a value has a length that CBOR reserves"
	case next > len(r.data):
		next, wrong = r.pos+1, CutShort
	case major <= CBORNegative:
		if s.head, s.size = 1, next-r.pos-1; n > math.MaxInt64 {
			s.kind = [...]Kind{Uint, Huge}[major]
		}
	case major <= CBORMap:
		s.size = int(min(n, math.MaxInt64))
		if major <= CBORText && s.size > len(r.data)-next {
			wrong = CutShort
		}
	case major == CBORTag:
		s.size = 1
	default:
		s = shape{cborSimple[info], 1, next - r.pos - 1}
		if s.kind == 0 {
			wrong = "a simple value is unknown"
		}
	}
	if r.head = s; wrong != "" {
		r.failAt(next, wrong)
	}
}

// cborArgument returns the argument of the value at data[i], and where it ends. The end exceeds
// len(data) if the argument is incomplete.
func cborArgument(data []byte, i int) (n uint64, next int) {
	info := data[i] & 0x1f
	if info-24 > 3 { // less than 24, or reserved
		return uint64(info), i + 1
	}
	width := 1 << (info - 24)
	n, _ = uintAt(data, i+1, width)
	return n, i + 1 + width
}

// join joins the parts of a text or a binary value of unknown length.
func (r *Reader) join(major byte) {
	part := Reader{encoding: CBOR, data: r.data, pos: r.pos + 1}
	joined := []byte{}
	for part.err == nil && part.another(0) {
		switch at := part.pos; {
		case at < len(r.data) && (r.data[at]>>5 != major || r.data[at]&0x1f >= cborReserved):
			part.failAt(at+1, "a string has a part that is not a string of the same type")
		case part.Kind() == Text:
			joined = append(joined, part.Text()...)
		case part.Kind() == Binary:
			joined = append(joined, part.Binary()...)
		}
	}
	r.err, r.joined, r.head = part.err, joined, shape{}
	if r.err == nil {
		r.head = shape{cborKinds[major], 1, part.pos - r.pos - 1}
	}
}

func cborInt(c byte, content []byte) int64 {
	n := uint64(c & 0x1f)
	if len(content) > 0 {
		n, _ = uintAt(content, 0, len(content))
	}
	if c>>5 == CBORNegative {
		return -1 - int64(n)
	}
	return int64(n)
}

// Tag reads a tag, and enters the tagged value as if it were a list of one element.
func (r *Reader) Tag() uint64 {
	n, _ := cborArgument(r.data, r.pos)
	r.Open()
	return n
}
