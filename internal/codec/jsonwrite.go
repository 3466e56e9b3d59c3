package codec

import (
	"bytes"
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

// next returns dst, to which the caller appends a value, with a comma if it is not the first.
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
func (w *jsonWriter) Text(v string)    { w.dst = value.AppendStringJSON(w.next(), v, false) }
func (w *jsonWriter) JSON(text []byte) { w.dst = append(w.next(), text...) }

func (w *jsonWriter) Binary(v []byte) {
	w.dst = append(w.next(), '"')
	w.dst = base64.StdEncoding.AppendEncode(w.dst, v)
	w.dst = append(w.dst, '"')
}

func (w *jsonWriter) BinaryParts(_ int, parts iter.Seq[[]byte]) {
	b := bytes.NewBuffer(append(w.next(), '"'))
	encoder := base64.NewEncoder(base64.StdEncoding, b)
	for v := range parts {
		_, _ = encoder.Write(v) // a Buffer returns no errors
	}
	_ = encoder.Close()
	w.dst = append(b.Bytes(), '"')
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

func (w *jsonWriter) Len() int      { return len(w.dst) }
func (w *jsonWriter) Bytes() []byte { return w.dst }
