package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/x448/float16"
)

// Reader reads and checks an encoded value, from its start. Call Kind first, then the method for
// that kind. After an error, Kind returns zero and More returns false, and other methods must not
// be called.
type Reader struct {
	encoding Encoding
	o        Options
	data     []byte
	pos      int
	err      error
	checked  bool // texts are known to be UTF-8

	head   shape // of the value at headAt; see Kind
	headAt int

	// open has, for each open list and map, the number of elements or members that are left. If this
	// is unknown, it has a negative number: in JSON the negated closing bracket.
	open  []int
	first bool // JSON: nothing has been read from the innermost open list or map

	joined []byte // CBOR: the text or binary value at headAt, if it consists of parts
}

// shape describes a value, as far as its beginning tells. The zero shape means "not known".
type shape struct {
	kind Kind
	head uint8 // bytes before the content
	size int   // bytes of the content; for a list or map, see Reader.open
}

type Options struct {
	Depth int // limit for the nesting of lists and maps; at most MaxDepth

	// Frame is true for (parts of) frames of the WebSocket protocol. Half of a surrogate pair in JSON
	// then becomes U+FFFD, as in browsers. MessagePack must have no extensions, and its keys must be
	// texts.
	Frame bool
}

const MaxDepth = 512

// NewReader returns a reader of data. JSON must be UTF-8.
func NewReader(e Encoding, data []byte, o Options) *Reader {
	r := &Reader{encoding: e, o: o}
	r.Reset(data, false)
	return r
}

// Reset makes r read other data. checked is true if a Reader has checked these data before.
func (r *Reader) Reset(data []byte, checked bool) {
	r.data, r.pos, r.err, r.checked = data, 0, nil, checked || r.encoding == JSON
	r.head, r.open, r.joined = shape{}, r.open[:0], nil
}

func (r *Reader) Encoding() Encoding { return r.encoding }

// Fail ends reading with an error at the current position, unless there is an error already.
func (r *Reader) Fail(text string) {
	if r.err == nil {
		r.err, r.head = &Error{r.pos, text}, shape{}
	}
}

func (r *Reader) failAt(pos int, text string) {
	r.pos = pos
	r.Fail(text)
}

func (r *Reader) Err() error { return r.err }

func (r *Reader) End() error {
	if r.encoding == JSON {
		r.next()
	}
	if r.pos < len(r.data) {
		r.Fail(LeftOver)
	}
	return r.err
}

func (r *Reader) Kind() Kind {
	if r.headAt != r.pos || r.head.kind == 0 {
		r.look()
	}
	return r.head.kind
}

// content skips the value at head, which is not a list or map, and returns its content.
func (r *Reader) content() []byte {
	start := r.pos + int(r.head.head)
	end := start + r.head.size
	r.pos = end
	if r.encoding == JSON && r.head.kind == Text {
		r.pos++ // the closing quote
	}
	return r.data[start:end:end]
}

func (r *Reader) Null() { r.content() }

func (r *Reader) Bool() bool {
	c := r.data[r.pos]
	r.content()
	return c == 't' || c == packTrue || c == cborTrue
}

func (r *Reader) Int() int64 {
	c := r.data[r.pos]
	b := r.content()
	switch r.encoding {
	case JSON:
		return jsonInt(b)
	case CBOR:
		return cborInt(c, b)
	}
	return packInt(c, b)
}

func (r *Reader) Uint() (n uint64) {
	b := r.content()
	if r.encoding == JSON {
		n, _ = strconv.ParseUint(string(b), 10, 64)
		return n
	}
	return binary.BigEndian.Uint64(b)
}

// Float reads a Float, a Float32 or, in JSON, any number. ok is false if the number is outside the
// range of a double.
func (r *Reader) Float() (f float64, ok bool) {
	b := r.content()
	switch {
	case r.encoding == JSON:
		f, err := strconv.ParseFloat(string(b), 64)
		return f, err == nil
	case len(b) == 2:
		return float64(float16.Frombits(binary.BigEndian.Uint16(b)).Float32()), true
	case len(b) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b))), true
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), true
}

// Text returns a text. Where possible, it shares memory with the data, as do the results of Binary,
// Extension, Key and Skip.
func (r *Reader) Text() []byte { return r.decoded(r.content()) }

// decoded returns the text that the encoded content represents.
func (r *Reader) decoded(content []byte) []byte {
	if r.joined != nil {
		return r.joined
	}
	if r.encoding != JSON || bytes.IndexByte(content, '\\') < 0 {
		r.check(content)
		return content
	}
	text, whole := unquote(content)
	if !whole && !r.o.Frame {
		r.Fail("a string has an unpaired surrogate")
	}
	return text
}

func (r *Reader) check(text []byte) {
	if !r.checked && !utf8.Valid(text) {
		r.Fail(NotUTF8)
	}
}

func (r *Reader) Binary() []byte {
	content := r.content()
	if r.joined != nil {
		return r.joined
	}
	return content
}

// Open enters a list or a map. It returns its number of elements or members, or 0 if that is
// unknown. The next call must be More.
func (r *Reader) Open() int {
	left := r.enter(len(r.open))
	r.open = append(r.open, left)
	return max(left, 0)
}

func (r *Reader) enter(depth int) (left int) {
	most := r.o.Depth
	if r.encoding == CBOR {
		most += 2 // a decimal is a tag with a list
	}
	if depth == most {
		r.Fail(fmt.Sprintf("values are nested deeper than %d", r.o.Depth))
		return 0
	}
	r.Kind()
	r.pos += int(r.head.head)
	r.first = true
	return r.head.size
}

// More reports whether the innermost open list or map has another element or member. If not, it
// closes the list or map.
func (r *Reader) More() bool {
	last := len(r.open) - 1
	if r.err != nil || r.more(&r.open[last]) {
		return r.err == nil
	}
	r.open = r.open[:last]
	return false
}

func (r *Reader) more(left *int) bool {
	if *left < 0 {
		return r.another(byte(-*left))
	}
	*left--
	return *left >= 0
}

// Key reads the name of a member. In MessagePack, if a key is not a text, read it as a value
// instead.
func (r *Reader) Key() []byte { return r.decoded(r.key()) }

func (r *Reader) key() (content []byte) {
	switch {
	case r.encoding != JSON:
		r.Kind()
	case r.next() == '"':
		r.quoted()
	default:
		r.Fail("a key is missing")
	}
	if k := r.head.kind; k != Text {
		r.Fail(fmt.Sprintf("a key is %s: it must be a string", k))
		return nil
	}
	content = r.content()
	switch {
	case r.encoding != JSON:
	case r.next() == ':':
		r.pos++
	default:
		r.Fail("a key is not followed by ':'")
	}
	return content
}

// Only reports, after the first Key of a map, whether the map has no other key.
func (r *Reader) Only() bool {
	if r.encoding != JSON {
		return r.open[len(r.open)-1] == 0
	}
	ahead := *r
	ahead.skip(len(r.open))
	return ahead.next() == '}'
}

// Skip skips the next value and returns its encoding.
func (r *Reader) Skip() []byte {
	r.Kind()
	start := r.pos
	r.skip(len(r.open))
	return r.data[start:r.pos:r.pos]
}

func (r *Reader) skip(depth int) {
	switch k := r.Kind(); k {
	case Text:
		if content := r.content(); r.encoding != JSON {
			r.decoded(content)
		}
	case List, Map, Tag:
		for left := r.enter(depth); r.err == nil && r.more(&left); r.skip(depth + 1) {
			switch {
			case k != Map:
			case r.encoding == JSON || r.o.Frame:
				r.check(r.key())
			default:
				r.skip(depth + 1)
			}
		}
	case 0:
	default:
		r.content()
	}
}
