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

func (w *jsonWriter) value() {
	if n := len(w.dst); n > w.start {
		switch w.dst[n-1] {
		case '{', '[', ':':
		default:
			w.dst = append(w.dst, ',')
		}
	}
}

func (w *jsonWriter) Encoding() Encoding { return JSON }

func (w *jsonWriter) Null() {
	w.value()
	w.dst = append(w.dst, "null"...)
}

func (w *jsonWriter) Bool(v bool) {
	w.value()
	w.dst = strconv.AppendBool(w.dst, v)
}

func (w *jsonWriter) Int(v int64) {
	w.value()
	w.dst = strconv.AppendInt(w.dst, v, 10)
}

func (w *jsonWriter) Uint(v uint64) {
	w.value()
	w.dst = strconv.AppendUint(w.dst, v, 10)
}

func (w *jsonWriter) Float(v float64) {
	w.value()
	w.dst = strconv.AppendFloat(w.dst, v, 'g', -1, 64)
}

func (w *jsonWriter) Float32(v float32) {
	w.value()
	w.dst = strconv.AppendFloat(w.dst, float64(v), 'g', -1, 32)
}

func (w *jsonWriter) Text(v string) {
	w.value()
	w.dst = value.AppendStringJSON(w.dst, v, false)
}

func (w *jsonWriter) TextBytes(v []byte) {
	w.value()
	w.dst = value.AppendStringJSON(w.dst, v, false)
}

func (w *jsonWriter) Binary(v []byte) {
	w.value()
	w.dst = append(w.dst, '"')
	w.dst = base64.StdEncoding.AppendEncode(w.dst, v)
	w.dst = append(w.dst, '"')
}

func (w *jsonWriter) BinaryParts(_ int, parts iter.Seq[[]byte]) {
	w.value()
	w.dst = append(w.dst, '"')
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
	w.value()
	w.dst = append(w.dst, '"')
	w.dst = t.AppendFormat(w.dst, instantForm)
	w.dst = append(w.dst, '"')
}

func (w *jsonWriter) JSON(text []byte) {
	w.value()
	w.dst = append(w.dst, text...)
}

func (w *jsonWriter) OpenMap() {
	w.value()
	w.dst = append(w.dst, '{')
}

func (w *jsonWriter) Key(name string) Writer {
	w.Text(name)
	w.dst = append(w.dst, ':')
	return w
}

func (w *jsonWriter) KeyBytes(name []byte) {
	w.TextBytes(name)
	w.dst = append(w.dst, ':')
}

func (w *jsonWriter) CloseMap() { w.dst = append(w.dst, '}') }

func (w *jsonWriter) OpenList() {
	w.value()
	w.dst = append(w.dst, '[')
}

func (w *jsonWriter) CloseList(int) { w.dst = append(w.dst, ']') }

func (w *jsonWriter) Len() int { return len(w.dst) }

func (w *jsonWriter) Bytes() []byte { return w.dst }
