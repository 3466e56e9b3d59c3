package codec

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
)

type PackWriter struct {
	dst  []byte
	open []opened
}

type opened struct{ mark, n int }

func (w *PackWriter) Encoding() Encoding { return MessagePack }

func (w *PackWriter) Null() { w.dst = append(w.dst, packNil) }

func (w *PackWriter) Bool(v bool) {
	if v {
		w.dst = append(w.dst, packTrue)
	} else {
		w.dst = append(w.dst, packFalse)
	}
}

func (w *PackWriter) Int(v int64) {
	switch {
	case v >= 0:
		w.Uint(uint64(v))
	case v >= -32:
		w.dst = append(w.dst, byte(v))
	default:
		w.dst = AppendNumber(w.dst, packInt8, uint64(v), bits.Len64(^uint64(v))+1)
	}
}

func (w *PackWriter) Uint(v uint64) {
	if v < packFixMap {
		w.dst = append(w.dst, byte(v))
	} else {
		w.dst = AppendNumber(w.dst, packUint8, v, bits.Len64(v))
	}
}

// AppendNumber appends a format byte and n as 1, 2, 4 or 8 bytes, whichever holds size bits. format
// is the format byte of a number of 1 byte; those of longer numbers follow it.
func AppendNumber(dst []byte, format byte, n uint64, size int) []byte {
	switch {
	case size <= 8:
		return append(dst, format, byte(n))
	case size <= 16:
		return append(dst, format+1, byte(n>>8), byte(n))
	case size <= 32:
		return binary.BigEndian.AppendUint32(append(dst, format+2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, format+3), n)
}

// head appends the head of a value with n bytes or elements. It appends short|n if n is less than
// few. Otherwise it calls AppendNumber, for at least least bits.
func (w *PackWriter) head(n int, short byte, few int, format byte, least int) {
	if n < few {
		w.dst = append(w.dst, short|byte(n))
	} else {
		w.dst = AppendNumber(w.dst, format, uint64(n), max(least, bits.Len(uint(n))))
	}
}

func (w *PackWriter) Float(v float64) {
	w.dst = binary.BigEndian.AppendUint64(append(w.dst, packFloat64), math.Float64bits(v))
}

func (w *PackWriter) Float32(v float32) {
	w.dst = binary.BigEndian.AppendUint32(append(w.dst, packFloat32), math.Float32bits(v))
}

func (w *PackWriter) Text(v string) {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	w.head(len(v), packFixStr, 32, packStr8, 1)
	w.dst = append(w.dst, v...)
}

func (w *PackWriter) Binary(v []byte) {
	w.head(len(v), 0, 0, packBin8, 1)
	w.dst = append(w.dst, v...)
}

func (w *PackWriter) BinaryParts(size int, parts iter.Seq[[]byte]) {
	w.head(size, 0, 0, packBin8, 1)
	for v := range parts {
		w.dst = append(w.dst, v...)
	}
}

func (w *PackWriter) Instant(ms int64) {
	t := time.UnixMilli(ms)
	seconds, nanos := t.Unix(), uint64(t.Nanosecond())
	data := make([]byte, 0, 12)
	switch {
	case seconds < 0 || seconds >= 1<<34:
		data = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(data, uint32(nanos)), uint64(seconds))
	case nanos == 0 && seconds <= math.MaxUint32:
		data = binary.BigEndian.AppendUint32(data, uint32(seconds))
	default:
		data = binary.BigEndian.AppendUint64(data, nanos<<34|uint64(seconds))
	}
	w.Extension(timestampType, data)
}

func (w *PackWriter) Extension(kind int8, data []byte) {
	if n := len(data); n > 0 && n <= 16 && n&(n-1) == 0 {
		w.dst = append(w.dst, packFixExt1+byte(bits.TrailingZeros(uint(n))))
	} else {
		w.head(n, 0, 0, packExt8, 1)
	}
	w.dst = append(append(w.dst, byte(kind)), data...)
}

func (w *PackWriter) JSON(text []byte) { w.Text(value.Alias(text)) }

func (w *PackWriter) OpenMap() {
	w.open = append(w.open, opened{mark: len(w.dst)})
	w.dst = append(w.dst, packFixMap)
}

func (w *PackWriter) Key(name string) Writer {
	w.open[len(w.open)-1].n++
	w.Text(name)
	return w
}

func (w *PackWriter) CloseMap() {
	w.close(w.open[len(w.open)-1].n, packFixMap, packMap16)
}

// Map begins a map of n members with keys of any kind. The caller does not close the map.
func (w *PackWriter) Map(n int) { w.count(n, packFixMap, packMap16) }

// List begins a list of n elements. The caller does not close the list.
func (w *PackWriter) List(n int) { w.count(n, packFixList, packList16) }

// count writes the head of a list or a map. MessagePack has no such head with a count of one byte.
func (w *PackWriter) count(n int, short, format16 byte) { w.head(n, short, 16, format16-1, 9) }

func (w *PackWriter) OpenList() {
	w.open = append(w.open, opened{mark: len(w.dst)})
	w.dst = append(w.dst, packFixList)
}

func (w *PackWriter) CloseList(n int) { w.close(n, packFixList, packList16) }

// close writes the head before the content. If it needs more than one byte, close moves the
// content.
func (w *PackWriter) close(n int, short, format16 byte) {
	last := len(w.open) - 1
	mark := w.open[last].mark
	w.open = w.open[:last]
	head := PackWriter{dst: make([]byte, 0, 5)}
	head.count(n, short, format16)
	w.dst = slices.Insert(w.dst, mark+1, head.dst[1:]...)
	w.dst[mark] = head.dst[0]
}

func (w *PackWriter) Len() int { return len(w.dst) }

func (w *PackWriter) Bytes() []byte { return w.dst }
