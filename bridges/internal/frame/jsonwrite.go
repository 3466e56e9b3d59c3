package frame

import (
	"encoding/base64"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"
)

// jsonWriter writes compact JSON.
type jsonWriter struct {
	dst   []byte
	start int // of what it writes
}

// value puts a comma before a value or a key that follows another.
func (w *jsonWriter) value() {
	if n := len(w.dst); n > w.start {
		switch w.dst[n-1] {
		case '{', '[', ':':
		default:
			w.dst = append(w.dst, ',')
		}
	}
}

// Null implements Writer.
func (w *jsonWriter) Null() {
	w.value()
	w.dst = append(w.dst, "null"...)
}

// Bool implements Writer.
func (w *jsonWriter) Bool(v bool) {
	w.value()
	w.dst = strconv.AppendBool(w.dst, v)
}

// Int implements Writer.
func (w *jsonWriter) Int(v int64) {
	w.value()
	w.dst = strconv.AppendInt(w.dst, v, 10)
}

// Uint implements Writer.
func (w *jsonWriter) Uint(v uint64) {
	w.value()
	w.dst = strconv.AppendUint(w.dst, v, 10)
}

// Float implements Writer.
func (w *jsonWriter) Float(v float64) {
	w.value()
	w.dst = strconv.AppendFloat(w.dst, v, 'g', -1, 64)
}

// Float32 implements Writer.
func (w *jsonWriter) Float32(v float32) {
	w.value()
	w.dst = strconv.AppendFloat(w.dst, float64(v), 'g', -1, 32)
}

// Text implements Writer.
func (w *jsonWriter) Text(v string) {
	w.value()
	w.dst = appendQuoted(w.dst, v)
}

// TextBytes implements Writer.
func (w *jsonWriter) TextBytes(v []byte) {
	w.value()
	w.dst = appendQuoted(w.dst, v)
}

// Binary implements Writer.
func (w *jsonWriter) Binary(v []byte) {
	w.value()
	w.dst = append(w.dst, '"')
	w.dst = base64.StdEncoding.AppendEncode(w.dst, v)
	w.dst = append(w.dst, '"')
}

// BinaryParts implements Writer.
func (w *jsonWriter) BinaryParts(_ int, parts iter.Seq[[]byte]) {
	w.value()
	w.dst = append(w.dst, '"')
	var rest []byte // of the parts before: less than what makes four characters
	for v := range parts {
		if len(rest) > 0 {
			n := min(len(v), 3-len(rest))
			rest, v = append(rest, v[:n]...), v[n:]
			if len(rest) < 3 {
				continue
			}
			w.dst = base64.StdEncoding.AppendEncode(w.dst, rest)
			rest = rest[:0]
		}
		whole := len(v) - len(v)%3
		w.dst = base64.StdEncoding.AppendEncode(w.dst, v[:whole])
		rest = append(rest, v[whole:]...)
	}
	w.dst = base64.StdEncoding.AppendEncode(w.dst, rest)
	w.dst = append(w.dst, '"')
}

// instantForm is RFC 3339 in UTC with milliseconds.
const instantForm = "2006-01-02T15:04:05.000Z"

// Instant implements Writer.
func (w *jsonWriter) Instant(ms int64) {
	t := time.UnixMilli(ms).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		w.Int(ms)
		return
	}
	w.value()
	w.dst = append(w.dst, '"')
	w.dst = t.AppendFormat(w.dst, instantForm)
	w.dst = append(w.dst, '"')
}

// JSON implements Writer.
func (w *jsonWriter) JSON(text []byte) {
	w.value()
	w.dst = append(w.dst, text...)
}

// OpenMap implements Writer.
func (w *jsonWriter) OpenMap() {
	w.value()
	w.dst = append(w.dst, '{')
}

// Key implements Writer.
func (w *jsonWriter) Key(name string) {
	w.Text(name)
	w.dst = append(w.dst, ':')
}

// KeyBytes implements Writer.
func (w *jsonWriter) KeyBytes(name []byte) {
	w.TextBytes(name)
	w.dst = append(w.dst, ':')
}

// CloseMap implements Writer.
func (w *jsonWriter) CloseMap() { w.dst = append(w.dst, '}') }

// OpenList implements Writer.
func (w *jsonWriter) OpenList() {
	w.value()
	w.dst = append(w.dst, '[')
}

// CloseList implements Writer.
func (w *jsonWriter) CloseList(int) { w.dst = append(w.dst, ']') }

// Len implements Writer.
func (w *jsonWriter) Len() int { return len(w.dst) }

// Bytes implements Writer.
func (w *jsonWriter) Bytes() []byte { return w.dst }

// appendQuoted appends a JSON string. What is not UTF-8 becomes U+FFFD: browsers
// give up a connection on which they get anything else.
func appendQuoted[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	clean := 0 // s up to here is in dst
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))])); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[clean:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		i += size
		clean = i
	}
	return append(append(dst, s[clean:]...), '"')
}
