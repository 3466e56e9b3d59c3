package builtin

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
)

// jsonReader reads one JSON text, RFC 8259, in one pass.
type jsonReader struct {
	budget
	b  []byte
	at int
}

func decodeJSON(payload []byte) (any, error) {
	r := jsonReader{newBudget(), payload, 0}
	if len(payload) > maxSize {
		return nil, r.fail(tooLarge)
	}
	r.space()
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if r.space(); r.at != len(payload) {
		return nil, r.fail(leftOver)
	}
	return v, nil
}

func (r *jsonReader) fail(text string) error { return &malformed{"JSON", r.at, text} }

// space passes over white space.
func (r *jsonReader) space() {
	for r.at < len(r.b) {
		switch r.b[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// take passes over c, if it comes next behind white space, and what white space follows.
func (r *jsonReader) take(c byte) bool {
	r.space()
	if r.at == len(r.b) || r.b[r.at] != c {
		return false
	}
	r.at++
	r.space()
	return true
}

func (r *jsonReader) value() (any, error) {
	if r.at == len(r.b) {
		return nil, r.fail(cutShort)
	}
	switch c := r.b[r.at]; {
	case c == '"':
		return r.text()
	case c == '{':
		return r.object()
	case c == '[':
		return r.array()
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	case c == 't':
		return true, r.word("true")
	case c == 'f':
		return false, r.word("false")
	case c == 'n':
		return nil, r.word("null")
	}
	return nil, r.fail("there is no value")
}

func (r *jsonReader) word(word string) error {
	if len(r.b)-r.at < len(word) || string(r.b[r.at:r.at+len(word)]) != word {
		return r.fail("there is no value")
	}
	r.at += len(word)
	return nil
}

// few is for how many elements there is room at first.
const few = 4

func (r *jsonReader) array() (any, error) {
	if !r.enter() {
		return nil, r.fail(tooDeep)
	}
	defer r.leave()
	r.at++
	if r.take(']') {
		return value.List{}, nil
	}
	list := make(value.List, 0, few)
	for {
		if !r.spend(1) {
			return nil, r.fail(tooMany)
		}
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if r.take(']') {
			return list, nil
		}
		if !r.take(',') {
			return nil, r.fail("there is no ',' or ']'")
		}
	}
}

func (r *jsonReader) object() (any, error) {
	if !r.enter() {
		return nil, r.fail(tooDeep)
	}
	defer r.leave()
	r.at++
	if r.take('}') {
		return value.Map{}, nil
	}
	m := make(value.Map, 0, few)
	for {
		if !r.spend(2) {
			return nil, r.fail(tooMany)
		}
		e, err := r.member()
		if err != nil {
			return nil, err
		}
		m = append(m, e)
		if r.take('}') {
			break
		}
		if !r.take(',') {
			return nil, r.fail("there is no ',' or '}'")
		}
	}
	if !isDistinct(m) {
		return nil, r.fail(sameKey)
	}
	return m, nil
}

func (r *jsonReader) member() (e value.Entry, err error) {
	if r.at == len(r.b) || r.b[r.at] != '"' {
		return e, r.fail("there is no key")
	}
	if e.Key, err = r.text(); err != nil {
		return e, err
	}
	if !r.take(':') {
		return e, r.fail("there is no ':'")
	}
	e.Value, err = r.value()
	return e, err
}

// text reads a string.
func (r *jsonReader) text() (any, error) {
	r.at++
	start, ascii := r.at, true
	for r.at < len(r.b) {
		switch c := r.b[r.at]; {
		case c == '"':
			s := r.b[start:r.at]
			if !ascii && !utf8.Valid(s) {
				return nil, r.fail(notUTF8)
			}
			r.at++
			return string(s), nil
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			return nil, r.fail("a text has a control character")
		default:
			ascii = ascii && c < utf8.RuneSelf
			r.at++
		}
	}
	return nil, r.fail(cutShort)
}

// escaped reads a string that has an escape at r.at.
func (r *jsonReader) escaped(start int) (any, error) {
	text := append([]byte(nil), r.b[start:r.at]...)
	for r.at < len(r.b) {
		switch c := r.b[r.at]; {
		case c == '"':
			if !utf8.Valid(text) {
				return nil, r.fail(notUTF8)
			}
			r.at++
			return string(text), nil
		case c == '\\':
			var err error
			if text, err = r.escape(text); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, r.fail("a text has a control character")
		default:
			text = append(text, c)
			r.at++
		}
	}
	return nil, r.fail(cutShort)
}

// escapes are the characters for the letters behind a backslash.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *jsonReader) escape(dst []byte) ([]byte, error) {
	if len(r.b)-r.at < 2 {
		return nil, r.fail(cutShort)
	}
	letter := r.b[r.at+1]
	if c := escapes[letter]; c != 0 {
		r.at += 2
		return append(dst, c), nil
	}
	first, ok := r.hex()
	if !ok {
		return nil, r.fail("a text has an unknown escape")
	}
	if !utf16.IsSurrogate(first) {
		return utf8.AppendRune(dst, first), nil
	}
	second, ok := r.hex()
	if pair := utf16.DecodeRune(first, second); ok && pair != utf8.RuneError {
		return utf8.AppendRune(dst, pair), nil
	}
	return nil, r.fail("a text has half a surrogate pair")
}

// hex reads \u and four digits.
func (r *jsonReader) hex() (rune, bool) {
	if len(r.b)-r.at < 6 || r.b[r.at] != '\\' || r.b[r.at+1] != 'u' {
		return 0, false
	}
	n := rune(0)
	for _, c := range r.b[r.at+2 : r.at+6] {
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
		n = n<<4 | rune(c)
	}
	r.at += 6
	return n, true
}

// number reads a number by its grammar, RFC 8259 §6.
func (r *jsonReader) number() (any, error) {
	start, isInteger := r.at, true
	if r.b[r.at] == '-' {
		r.at++
	}
	switch whole := r.digits(); {
	case whole == 0, whole > 1 && r.b[r.at-whole] == '0':
		return nil, r.fail(badNumber)
	}
	if r.at < len(r.b) && r.b[r.at] == '.' {
		isInteger = false
		r.at++
		if r.digits() == 0 {
			return nil, r.fail(badNumber)
		}
	}
	if r.at < len(r.b) && (r.b[r.at] == 'e' || r.b[r.at] == 'E') {
		isInteger = false
		r.at++
		if r.at < len(r.b) && (r.b[r.at] == '+' || r.b[r.at] == '-') {
			r.at++
		}
		if r.digits() == 0 {
			return nil, r.fail(badNumber)
		}
	}
	if isInteger && r.at-start <= shortInteger {
		return integerOf(r.b[start:r.at]), nil
	}
	v, ok := exactNumber(string(r.b[start:r.at]), isInteger)
	if !ok {
		return nil, r.fail(inexact)
	}
	return v, nil
}

// shortInteger is the length up to which every integer is a long, sign included.
const shortInteger = 18

func integerOf(s []byte) int64 {
	digits, negative := bytes.CutPrefix(s, []byte{'-'})
	n := int64(0)
	for _, c := range digits {
		n = 10*n + int64(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

func (r *jsonReader) digits() (n int) {
	for r.at < len(r.b) && r.b[r.at] >= '0' && r.b[r.at] <= '9' {
		r.at++
		n++
	}
	return n
}

// decimalDigits is how many digits a decimal128 has.
const decimalDigits = 34

// exactNumber is the first of long, ulong, double and decimal128 that holds
// all digits of a number; a long integer is a decimal128 rather than a double.
func exactNumber(s string, isInteger bool) (any, bool) {
	if isInteger {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, true
		}
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return n, true
		}
		if d, ok := value.ParseDecimal128(s); ok && len(s) <= decimalDigits {
			return d, true
		}
	}
	if f, ok := exactDouble(s); ok {
		return f, true
	}
	d, ok := value.ParseDecimal128(s)
	return d, ok
}
