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
	r := Reader{data: data, checked: true, o: Options{Depth: depth, Frame: true}}
	r.skip(0)
	return r.End() == nil
}

// next returns the first byte that is not white space, or 0 at the end.
func (r *Reader) next() byte {
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// look finds the kind and the size of the next value.
func (r *Reader) look() {
	if r.err != nil {
		return
	}
	if r.encoding != JSON {
		r.headAt = r.pos
		if r.encoding == MessagePack {
			r.lookPack()
		} else {
			r.lookCBOR()
		}
		return
	}
	switch c := r.next(); c {
	case '"':
		r.quoted()
	case '{':
		r.head = shape{Map, 1, -'}'}
	case '[':
		r.head = shape{List, 1, -']'}
	case 't':
		r.word("true", Bool)
	case 'f':
		r.word("false", Bool)
	case 'n':
		r.word("null", Null)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		r.number()
	default:
		if r.pos == len(r.data) {
			r.Fail(CutShort)
		}
		r.Fail("a value is missing or malformed")
	}
	r.headAt = r.pos
}

func (r *Reader) word(word string, k Kind) {
	r.head = shape{k, 0, len(word)}
	if !bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
		r.Fail("a value is missing or malformed")
	}
}

const shortInteger = 18 // every integer of at most 18 characters is an Int

// number finds the end and the kind of a number (RFC 8259 §6).
func (r *Reader) number() {
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
	r.head = shape{Int, 0, i - r.pos}
	switch {
	case malformed:
		r.Fail("a number is malformed")
	case !integer:
		r.head.kind = Float
	case r.head.size > shortInteger:
		if _, err := strconv.ParseInt(string(r.data[r.pos:i]), 10, 64); err == nil {
			return
		}
		r.head.kind = Huge
		if _, err := strconv.ParseUint(string(r.data[r.pos:i]), 10, 64); err == nil {
			r.head.kind = Uint
		}
	}
}

func digits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}

func jsonInt(raw []byte) (n int64) {
	if len(raw) > shortInteger {
		n, _ = strconv.ParseInt(string(raw), 10, 64)
		return n
	}
	digits, negative := bytes.CutPrefix(raw, []byte{'-'})
	for _, c := range digits {
		n = 10*n + int64(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

// another reports whether an element or member follows. closing, in CBOR a break, ends the value.
func (r *Reader) another(closing byte) bool {
	if r.encoding == CBOR {
		ends := r.pos < len(r.data) && r.data[r.pos] == cborBreak
		if ends {
			r.pos++
		}
		return !ends
	}
	first := r.first
	r.first = false
	switch c := r.next(); {
	case c == closing:
		r.pos++
		return false
	case first:
	case c == ',':
		r.pos++
	default:
		r.Fail(fmt.Sprintf("an element is not followed by ',' or '%c'", closing))
		return false
	}
	return true
}

func (r *Reader) quoted() {
	start := r.pos + 1
	for i := plainText(r.data, start); i < len(r.data); i = plainText(r.data, i+1) {
		switch c := r.data[i]; {
		case c == '"':
			r.head = shape{Text, 1, i - start}
			return
		case c < ' ':
			r.failAt(i, "a string has a control character")
			return
		}
		if i++; i == len(r.data) { // after a backslash
			break
		}
		if escapes[r.data[i]] != 0 {
			continue
		}
		if _, ok := hex4(r.data, i+1); r.data[i] != 'u' || !ok {
			r.failAt(i, "a string has an unknown escape")
			return
		}
		i += 4
	}
	r.failAt(len(r.data), CutShort)
}

// plainText returns the index of the first quote, backslash or control character at or after i.
func plainText(data []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		special, backslash := x^ones*2, x^ones*'\\' // a byte of x^ones*2 is less than 0x21 for a quote and for control characters
		found := (special-ones*0x21)&^special | (backslash-ones)&^backslash
		if found &= highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8 // the lowest bit is exact; higher ones may be wrong because of a borrow
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
	n, err := strconv.ParseUint(string(data[i:i+4]), 16, 16)
	return rune(n), err == nil
}

// unquote decodes escapes. whole is false if it replaced half of a surrogate pair by U+FFFD.
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
