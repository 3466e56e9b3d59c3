package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func ValidJSON(data []byte, depth int) bool {
	if !utf8.Valid(data) {
		return false
	}
	r := jsonReader{data: data, o: Options{Depth: depth, Frame: true}}
	r.skip()
	return r.End() == nil
}

type jsonReader struct {
	data  []byte
	pos   int
	o     Options
	depth int
	maps  [MaxDepth / 64]uint64 // one bit for each open list or map, set for a map
	first bool                  // nothing of the innermost open list or map was read
	err   error

	number    Kind
	numberAt  int
	numberEnd int // 0: no number was read
}

func (r *jsonReader) Encoding() Encoding { return JSON }

func (r *jsonReader) Reset(data []byte, _ bool) {
	r.data, r.pos, r.depth, r.first, r.err, r.numberEnd = data, 0, 0, false, nil, 0
}

func (r *jsonReader) Fail(text string) {
	if r.err == nil {
		r.err = &Error{r.pos, text}
	}
}

func (r *jsonReader) Err() error { return r.err }

func (r *jsonReader) End() error {
	if r.next(); r.pos < len(r.data) {
		r.Fail(LeftOver)
	}
	return r.err
}

// next returns the first byte that is not white space, or 0 at the end.
func (r *jsonReader) next() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) Kind() Kind {
	if r.err != nil {
		return 0
	}
	switch c := r.next(); c {
	case '"':
		return Text
	case '{':
		return Map
	case '[':
		return List
	case 't':
		return r.word("true", Bool)
	case 'f':
		return r.word("false", Bool)
	case 'n':
		return r.word("null", Null)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if r.numberEnd == 0 || r.numberAt != r.pos {
			r.scanNumber()
		}
		return r.number
	}
	if r.pos == len(r.data) {
		r.Fail(CutShort)
	} else {
		r.Fail("there is no value")
	}
	return 0
}

func (r *jsonReader) word(word string, k Kind) Kind {
	if len(r.data)-r.pos < len(word) || string(r.data[r.pos:r.pos+len(word)]) != word {
		r.Fail("there is no value")
		return 0
	}
	return k
}

const shortInteger = 18 // every integer of at most 18 characters is an Int

// scanNumber finds the end and the kind of a number, RFC 8259 §6.
func (r *jsonReader) scanNumber() {
	start, integer := r.pos, true
	if r.data[start] == '-' {
		start++
	}
	i := digits(r.data, start)
	malformed := i == start || r.data[start] == '0' && i > start+1
	if i < len(r.data) && r.data[i] == '.' {
		integer, start = false, i+1
		i = digits(r.data, start)
		malformed = malformed || i == start
	}
	if i < len(r.data) && r.data[i]|0x20 == 'e' {
		integer, start = false, i+1
		if start < len(r.data) && (r.data[start] == '+' || r.data[start] == '-') {
			start++
		}
		i = digits(r.data, start)
		malformed = malformed || i == start
	}
	if malformed {
		r.number = 0
		r.Fail("a number is malformed")
		return
	}
	r.numberAt, r.numberEnd = r.pos, i
	switch {
	case !integer:
		r.number = Float
	case i-r.pos <= shortInteger:
		r.number = Int
	default:
		r.number = Huge
		if _, err := strconv.ParseInt(string(r.data[r.pos:i]), 10, 64); err == nil {
			r.number = Int
		} else if _, err := strconv.ParseUint(string(r.data[r.pos:i]), 10, 64); err == nil {
			r.number = Uint
		}
	}
}

func digits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}

func (r *jsonReader) takeNumber() []byte {
	raw := r.data[r.pos:r.numberEnd]
	r.pos = r.numberEnd
	return raw
}

func (r *jsonReader) Null() { r.pos += len("null") }

func (r *jsonReader) Bool() bool {
	if r.data[r.pos] == 't' {
		r.pos += len("true")
		return true
	}
	r.pos += len("false")
	return false
}

func (r *jsonReader) Int() int64 {
	raw := r.takeNumber()
	if len(raw) > shortInteger {
		n, _ := strconv.ParseInt(string(raw), 10, 64)
		return n
	}
	digits, negative := bytes.CutPrefix(raw, []byte{'-'})
	n := int64(0)
	for _, c := range digits {
		n = 10*n + int64(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

func (r *jsonReader) Uint() uint64 {
	n, _ := strconv.ParseUint(string(r.takeNumber()), 10, 64)
	return n
}

func (r *jsonReader) Scalar() (v any, k Kind) {
	switch k = r.Kind(); k {
	case Null:
		r.Null()
	case Bool:
		v = r.Bool()
	case Int:
		v = r.Int()
	case Uint:
		v = r.Uint()
	case Text:
		v = string(r.Text())
	}
	return v, k
}

func (r *jsonReader) Float() (float64, bool) {
	f, err := strconv.ParseFloat(string(r.takeNumber()), 64)
	return f, err == nil
}

func (r *jsonReader) Text() []byte { return r.decoded(r.quoted()) }

func (r *jsonReader) decoded(text []byte, escaped bool) []byte {
	if !escaped {
		return text
	}
	text, whole := unquote(text)
	if !whole && !r.o.Frame {
		r.Fail("a string has an unpaired surrogate")
	}
	return text
}

// These kinds do not exist in JSON.
func (r *jsonReader) Binary() []byte            { return nil }
func (r *jsonReader) Instant() (int64, bool)    { return 0, false }
func (r *jsonReader) Extension() (int8, []byte) { return 0, nil }

func (r *jsonReader) Open() int {
	if r.depth == r.o.Depth {
		r.Fail(tooDeep(r.o.Depth))
		return 0
	}
	word, bit := r.depth/64, uint64(1)<<(r.depth%64)
	r.maps[word] &^= bit
	if r.next() == '{' {
		r.maps[word] |= bit
	}
	r.depth++
	r.pos++
	r.first = true
	return 0
}

func tooDeep(depth int) string { return fmt.Sprintf("values are nested deeper than %d", depth) }

func (r *jsonReader) More() bool {
	if r.err != nil {
		return false
	}
	closing := byte(']')
	if i := r.depth - 1; r.maps[i/64]>>(i%64)&1 != 0 {
		closing = '}'
	}
	more := r.another(closing, r.first)
	if r.first = false; !more {
		r.depth--
	}
	return more
}

// another reports whether an element or member follows, or closing. first: none was read so far.
func (r *jsonReader) another(closing byte, first bool) bool {
	switch c := r.next(); {
	case c == closing:
		r.pos++
		return false
	case first:
	case c == ',':
		r.pos++
	default:
		r.Fail(fmt.Sprintf("there is no ',' or '%c'", closing))
		return false
	}
	return true
}

func (r *jsonReader) Key() []byte { return r.decoded(r.key()) }

func (r *jsonReader) key() (text []byte, escaped bool) {
	if r.next() != '"' {
		r.Fail("there is no key")
		return nil, false
	}
	text, escaped = r.quoted()
	if r.next() != ':' {
		r.Fail("there is no ':'")
		return nil, false
	}
	r.pos++
	return text, escaped
}

func (r *jsonReader) Only() bool {
	ahead := *r
	ahead.skip()
	return ahead.next() == '}'
}

func (r *jsonReader) Skip() []byte {
	r.next()
	start := r.pos
	r.skip()
	return r.data[start:r.pos:r.pos]
}

func (r *jsonReader) skip() {
	switch c := r.next(); c {
	case '"':
		r.quoted()
	case '{', '[':
		if r.depth == r.o.Depth {
			r.Fail(tooDeep(r.depth))
			return
		}
		r.pos++
		r.depth++
		for first := true; r.another(c+2, first) && r.err == nil; first = false { // c+2 is the closing bracket of c
			if c == '{' {
				r.key()
			}
			r.skip()
		}
		r.depth--
	default:
		switch r.Kind() {
		case Null:
			r.Null()
		case Bool:
			r.Bool()
		case Int, Uint, Huge, Float:
			r.takeNumber()
		}
	}
}

// escaped is true if the text contains escapes.
func (r *jsonReader) quoted() (text []byte, escaped bool) {
	start := r.pos + 1
	for i := plainText(r.data, start); i < len(r.data); i = plainText(r.data, i+1) {
		switch c := r.data[i]; {
		case c == '"':
			r.pos = i + 1
			return r.data[start:i:i], escaped
		case c < ' ':
			r.pos = i
			r.Fail("a string has a control character")
			return nil, false
		}
		escaped = true // the byte is a backslash
		if i++; i == len(r.data) {
			break
		}
		if escapes[r.data[i]] != 0 {
			continue
		}
		if _, ok := hex4(r.data, i+1); r.data[i] != 'u' || !ok {
			r.pos = i
			r.Fail("a string has an unknown escape")
			return nil, false
		}
		i += 4
	}
	r.pos = len(r.data)
	r.Fail(CutShort)
	return nil, false
}

// plainText returns the position of the first quote, backslash or control character from i on.
func plainText(data []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		quote, backslash := x^ones*'"', x^ones*'\\'
		found := (x-ones*' ')&^x | (quote-ones)&^quote | (backslash-ones)&^backslash
		if found &= highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8 // only the lowest bit is exact, because higher ones may come from a borrow
		}
	}
	for i < len(data) && data[i] >= ' ' && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return i
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hex4(data []byte, i int) (r rune, ok bool) {
	if i+4 > len(data) {
		return 0, false
	}
	for _, c := range data[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// whole is false if unquote has replaced half of a surrogate pair by U+FFFD.
func unquote(text []byte) (decoded []byte, whole bool) {
	out := make([]byte, 0, len(text))
	whole = true
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(out, text...), whole
		}
		out = append(out, text[:i]...)
		text = text[i:]
		if c := escapes[text[1]]; c != 0 {
			out, text = append(out, c), text[2:]
			continue
		}
		r, _ := hex4(text, 2)
		if text = text[6:]; utf16.IsSurrogate(r) {
			low, paired := hex4(text, 2)
			if r = utf16.DecodeRune(r, low); paired && r != utf8.RuneError && text[0] == '\\' && text[1] == 'u' {
				text = text[6:]
			} else {
				r, whole = utf8.RuneError, false
			}
		}
		out = utf8.AppendRune(out, r)
	}
}
