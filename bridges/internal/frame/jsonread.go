package frame

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ValidJSON reports whether data is one JSON text that a frame can hold.
func ValidJSON(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	i, err := checkJSON(data, 0, 1)
	return err == nil && space(data, i) == len(data)
}

func splitJSON(data []byte, into []Member) ([]Member, error) {
	if !utf8.Valid(data) {
		return into, malformed(0, "it is not UTF-8")
	}
	i := space(data, 0)
	if i == len(data) || data[i] != '{' {
		return into, malformed(i, "it is not a JSON object")
	}
	for i = space(data, i+1); i < len(data) && data[i] != '}'; {
		end, err := checkString(data, i)
		if err != nil {
			return into, err
		}
		key := string(unquote(data[i:end]))
		if i = space(data, end); i == len(data) || data[i] != ':' {
			return into, malformed(i, "a colon is missing")
		}
		i = space(data, i+1)
		if end, err = checkJSON(data, i, 2); err != nil {
			return into, err
		}
		into = append(into, Member{key, data[i:end:end]})
		if i = space(data, end); i < len(data) && data[i] == ',' {
			if i = space(data, i+1); i < len(data) && data[i] == '}' {
				return into, malformed(i, "a member is missing")
			}
		} else if i < len(data) && data[i] != '}' {
			return into, malformed(i, "a comma is missing")
		}
	}
	if i == len(data) {
		return into, malformed(i, "it ends too early")
	}
	if i = space(data, i+1); i != len(data) {
		return into, malformed(i, "something follows the JSON object")
	}
	return into, nil
}

// space returns the position of the first byte from i on that is no white space.
func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// checkJSON checks the value at i, which no white space precedes, and returns
// where it ends. depth is its own, if it is a list or an object.
func checkJSON(data []byte, i, depth int) (end int, err error) {
	if i >= len(data) {
		return i, malformed(i, "it ends too early")
	}
	switch c := data[i]; {
	case c == '"':
		return checkString(data, i)
	case c == '{' || c == '[':
		if depth > maxNesting {
			return i, malformed(i, "it is nested deeper than %d", maxNesting)
		}
		return checkNested(data, i, depth)
	case c == '-' || c >= '0' && c <= '9':
		return checkNumber(data, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(data[i:], []byte(word)) {
			return i + len(word), nil
		}
	}
	return i, malformed(i, "there is no value")
}

// checkNested checks a list or an object.
func checkNested(data []byte, i, depth int) (end int, err error) {
	isMap := data[i] == '{'
	closing := data[i] + 2 // of both brackets
	if i = space(data, i+1); i < len(data) && data[i] == closing {
		return i + 1, nil
	}
	for {
		if isMap {
			if i, err = checkString(data, i); err != nil {
				return i, err
			}
			if i = space(data, i); i == len(data) || data[i] != ':' {
				return i, malformed(i, "a colon is missing")
			}
			i = space(data, i+1)
		}
		if i, err = checkJSON(data, i, depth+1); err != nil {
			return i, err
		}
		i = space(data, i)
		switch {
		case i < len(data) && data[i] == ',':
			i = space(data, i+1)
		case i < len(data) && data[i] == closing:
			return i + 1, nil
		default:
			return i, malformed(i, "a list or an object does not go on")
		}
	}
}

func checkString(data []byte, i int) (end int, err error) {
	if i >= len(data) || data[i] != '"' {
		return i, malformed(i, "there is no string")
	}
	for i = plainText(data, i+1); i < len(data); i = plainText(data, i+1) {
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c < ' ':
			return i, malformed(i, "a control character in a string")
		case c == '\\':
			if i++; i == len(data) {
				return i, malformed(i, "it ends too early")
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(data, i+1); !ok {
					return i, malformed(i, "an escape without four hexadecimal digits")
				}
				i += 4
			default:
				return i, malformed(i, "an unknown escape in a string")
			}
		}
	}
	return i, malformed(i, "it ends too early")
}

// plainText returns the position of the first byte from i on, or one little
// before it, that is not plain in a string: a quote, a backslash or a control
// character. It looks at eight bytes at a time.
func plainText(data []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		quote, backslash := x^ones*'"', x^ones*'\\'
		found := (x-ones*' ')&^x | (quote-ones)&^quote | (backslash-ones)&^backslash
		if found&highs != 0 {
			break
		}
	}
	return i
}

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

func checkNumber(data []byte, i int) (end int, err error) {
	digits := func() bool {
		mark := i
		for i < len(data) && data[i] >= '0' && data[i] <= '9' {
			i++
		}
		return i > mark
	}
	if data[i] == '-' {
		i++
	}
	if first := i; !digits() || data[first] == '0' && i > first+1 {
		return i, malformed(i, "a number without digits, or with leading zeros")
	}
	if i < len(data) && data[i] == '.' {
		if i++; !digits() {
			return i, malformed(i, "a fraction without digits")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			return i, malformed(i, "an exponent without digits")
		}
	}
	return i, nil
}

// unquote decodes a checked string. It shares memory with quoted where there
// are no escapes. Half a surrogate pair becomes U+FFFD, as browsers do it.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	i := bytes.IndexByte(inner, '\\')
	if i < 0 {
		return inner
	}
	out := append(make([]byte, 0, len(inner)), inner[:i]...)
	for i < len(inner) {
		c := inner[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		switch c = inner[i+1]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(inner, i+2)
			if i += 6; utf16.IsSurrogate(r) {
				if low, ok := hex4(inner, i+2); ok && inner[i] == '\\' && inner[i+1] == 'u' && utf16.DecodeRune(r, low) != utf8.RuneError {
					r, i = utf16.DecodeRune(r, low), i+6
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
		i += 2
	}
	return out
}

// jsonReader reads a value that was checked.
type jsonReader struct {
	data []byte
	pos  int
}

func (r *jsonReader) next() byte {
	r.pos = space(r.data, r.pos)
	return r.data[r.pos]
}

// Kind implements Reader.
func (r *jsonReader) Kind() Kind {
	switch r.next() {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return Text
	case '[':
		return List
	case '{':
		return Map
	}
	number := r.number()
	if bytes.ContainsAny(number, ".eE") {
		return Float
	}
	if _, err := strconv.ParseInt(string(number), 10, 64); err == nil {
		return Int
	}
	if _, err := strconv.ParseUint(string(number), 10, 64); err == nil {
		return Uint
	}
	return Huge
}

func (r *jsonReader) number() []byte {
	end, _ := checkNumber(r.data, r.pos)
	return r.data[r.pos:end]
}

// take passes over a value.
func (r *jsonReader) take() []byte {
	r.pos = space(r.data, r.pos)
	end, _ := checkJSON(r.data, r.pos, math.MinInt)
	raw := r.data[r.pos:end:end]
	r.pos = end
	return raw
}

// Null implements Reader.
func (r *jsonReader) Null() { r.take() }

// Bool implements Reader.
func (r *jsonReader) Bool() bool { return r.take()[0] == 't' }

// Int implements Reader.
func (r *jsonReader) Int() int64 {
	n, _ := strconv.ParseInt(string(r.take()), 10, 64)
	return n
}

// Uint implements Reader.
func (r *jsonReader) Uint() uint64 {
	n, _ := strconv.ParseUint(string(r.take()), 10, 64)
	return n
}

// Float implements Reader.
func (r *jsonReader) Float() (float64, bool) {
	f, err := strconv.ParseFloat(string(r.take()), 64)
	return f, err == nil
}

// Text implements Reader.
func (r *jsonReader) Text() []byte { return unquote(r.take()) }

// Binary implements Reader. JSON has none.
func (r *jsonReader) Binary() []byte { return nil }

// Instant implements Reader. JSON has none.
func (r *jsonReader) Instant() (int64, bool) { return 0, false }

// Open implements Reader.
func (r *jsonReader) Open() {
	r.next()
	r.pos++
}

// More implements Reader.
func (r *jsonReader) More() bool {
	switch r.next() {
	case ',':
		r.pos++
		return true
	case ']', '}':
		r.pos++
		return false
	default:
		return true
	}
}

// Key implements Reader.
func (r *jsonReader) Key() []byte {
	key := r.Text()
	r.next()
	r.pos++ // the colon
	return key
}

// Only implements Reader.
func (r *jsonReader) Only() bool {
	end, _ := checkJSON(r.data, space(r.data, r.pos), math.MinInt)
	return r.data[space(r.data, end)] == '}'
}

// Skip implements Reader.
func (r *jsonReader) Skip() []byte { return r.take() }
