package codec

import (
	"encoding/base64"
	"iter"
	"strconv"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

type jsonWriter struct {
	dst   []byte
	start int
}

// next returns dst, to which a value is to be appended: with a comma if there is one before it.
func (w *jsonWriter) next() []byte {
	if n := len(w.dst); n > w.start {
		switch w.dst[n-1] {
		case '{', '[', ':':
		default:
			return append(w.dst, ',')
		}
	}
	return w.dst
}

func (w *jsonWriter) Encoding() Encoding { return JSON }

func (w *jsonWriter) Null()           { w.dst = append(w.next(), "null"...) }
func (w *jsonWriter) Bool(v bool)     { w.dst = strconv.AppendBool(w.next(), v) }
func (w *jsonWriter) Int(v int64)     { w.dst = strconv.AppendInt(w.next(), v, 10) }
func (w *jsonWriter) Uint(v uint64)   { w.dst = strconv.AppendUint(w.next(), v, 10) }
func (w *jsonWriter) Float(v float64) { w.dst = strconv.AppendFloat(w.next(), v, 'g', -1, 64) }
func (w *jsonWriter) Float32(v float32) {
	w.dst = strconv.AppendFloat(w.next(), float64(v), 'g', -1, 32)
}
func (w *jsonWriter) Text(v string)      { w.dst = value.AppendStringJSON(w.next(), v, false) }
func (w *jsonWriter) TextBytes(v []byte) { w.dst = value.AppendStringJSON(w.next(), v, false) }
func (w *jsonWriter) JSON(text []byte)   { w.dst = append(w.next(), text...) }

func (w *jsonWriter) Binary(v []byte) {
	w.dst = append(w.next(), '"')
	w.dst = base64.StdEncoding.AppendEncode(w.dst, v)
	w.dst = append(w.dst, '"')
}

func (w *jsonWriter) BinaryParts(_ int, parts iter.Seq[[]byte]) {
	w.dst = append(w.next(), '"')
	var rest []byte // bytes that do not yet fill four characters of base64
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

const instantForm = "2006-01-02T15:04:05.000Z"

func (w *jsonWriter) Instant(ms int64) {
	t := time.UnixMilli(ms).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		w.Int(ms)
		return
	}
	w.dst = append(w.next(), '"')
	w.dst = t.AppendFormat(w.dst, instantForm)
	w.dst = append(w.dst, '"')
}

func (w *jsonWriter) OpenMap()      { w.dst = append(w.next(), '{') }
func (w *jsonWriter) CloseMap()     { w.dst = append(w.dst, '}') }
func (w *jsonWriter) OpenList()     { w.dst = append(w.next(), '[') }
func (w *jsonWriter) CloseList(int) { w.dst = append(w.dst, ']') }

func (w *jsonWriter) Key(name string) Writer {
	w.Text(name)
	w.dst = append(w.dst, ':')
	return w
}

func (w *jsonWriter) KeyBytes(name []byte) {
	w.TextBytes(name)
	w.dst = append(w.dst, ':')
}

func (w *jsonWriter) Len() int      { return len(w.dst) }
func (w *jsonWriter) Bytes() []byte { return w.dst }
