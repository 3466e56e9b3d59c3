package codec

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
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
	case v >= math.MinInt8:
		w.dst = append(w.dst, packInt8, byte(v))
	case v >= math.MinInt16:
		w.dst = binary.BigEndian.AppendUint16(append(w.dst, packInt8+1), uint16(v))
	case v >= math.MinInt32:
		w.dst = binary.BigEndian.AppendUint32(append(w.dst, packInt8+2), uint32(v))
	default:
		w.dst = binary.BigEndian.AppendUint64(append(w.dst, packInt64), uint64(v))
	}
}

func (w *PackWriter) Uint(v uint64) {
	switch {
	case v < packFixMap:
		w.dst = append(w.dst, byte(v))
	case v <= math.MaxUint8:
		w.dst = append(w.dst, packUint8, byte(v))
	case v <= math.MaxUint16:
		w.dst = binary.BigEndian.AppendUint16(append(w.dst, packUint8+1), uint16(v))
	case v <= math.MaxUint32:
		w.dst = binary.BigEndian.AppendUint32(append(w.dst, packUint8+2), uint32(v))
	default:
		w.dst = binary.BigEndian.AppendUint64(append(w.dst, packUint64), v)
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

func (w *PackWriter) TextBytes(v []byte) {
	if !utf8.Valid(v) {
		w.Text(string(v))
		return
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

// head appends the head of a value of size n: the byte short|n if n is less than few; otherwise a
// format byte, and n in 1, 2 or 4 bytes. wide is the first of these formats; in it, n has as many
// bytes as first says.
func (w *PackWriter) head(n int, short byte, few int, wide byte, first int) {
	switch {
	case n < few:
		w.dst = append(w.dst, short|byte(n))
	case n <= math.MaxUint8 && first == 1:
		w.dst = append(w.dst, wide, byte(n))
	case n <= math.MaxUint16:
		w.dst = binary.BigEndian.AppendUint16(append(w.dst, wide+byte(2-first)), uint16(n))
	default:
		w.dst = binary.BigEndian.AppendUint32(append(w.dst, wide+byte(3-first)), uint32(n))
	}
}

func (w *PackWriter) Instant(ms int64) {
	seconds, rest := ms/1000, ms%1000
	if rest < 0 {
		seconds, rest = seconds-1, rest+1000
	}
	nanos := uint64(rest) * 1e6
	var data [12]byte
	n := len(data)
	switch {
	case seconds < 0 || seconds >= 1<<34:
		binary.BigEndian.PutUint32(data[:], uint32(nanos))
		binary.BigEndian.PutUint64(data[4:], uint64(seconds))
	case nanos == 0 && seconds <= math.MaxUint32:
		binary.BigEndian.PutUint32(data[:], uint32(seconds))
		n = 4
	default:
		binary.BigEndian.PutUint64(data[:], nanos<<34|uint64(seconds))
		n = 8
	}
	w.Extension(timestampType, data[:n])
}

func (w *PackWriter) Extension(kind int8, data []byte) {
	if n := len(data); n > 0 && n <= 16 && n&(n-1) == 0 {
		w.dst = append(w.dst, packFixExt1+byte(bits.TrailingZeros(uint(n))))
	} else {
		w.head(n, 0, 0, packExt8, 1)
	}
	w.dst = append(append(w.dst, byte(kind)), data...)
}

func (w *PackWriter) JSON(text []byte) { w.TextBytes(text) }

func (w *PackWriter) OpenMap() {
	w.open = append(w.open, opened{mark: len(w.dst)})
	w.dst = append(w.dst, packFixMap)
}

func (w *PackWriter) Key(name string) Writer {
	w.open[len(w.open)-1].n++
	w.Text(name)
	return w
}

func (w *PackWriter) KeyBytes(name []byte) {
	w.open[len(w.open)-1].n++
	w.TextBytes(name)
}

func (w *PackWriter) CloseMap() {
	w.close(w.open[len(w.open)-1].n, packFixMap, packMap16)
}

// The keys may be of any kind. The caller does not close the map.
func (w *PackWriter) Map(n int) { w.head(n, packFixMap, 16, packMap16, 2) }

// The caller does not close the list.
func (w *PackWriter) List(n int) { w.head(n, packFixList, 16, packList16, 2) }

func (w *PackWriter) OpenList() {
	w.open = append(w.open, opened{mark: len(w.dst)})
	w.dst = append(w.dst, packFixList)
}

func (w *PackWriter) CloseList(n int) { w.close(n, packFixList, packList16) }

// close writes the head. One byte is kept for it; if it needs more, close moves the content.
func (w *PackWriter) close(n int, short, wide byte) {
	last := len(w.open) - 1
	mark := w.open[last].mark
	w.open = w.open[:last]
	switch {
	case n < 16:
		w.dst[mark] = short | byte(n)
	case n <= math.MaxUint16:
		w.dst = slices.Insert(w.dst, mark+1, 0, 0)
		w.dst[mark] = wide
		binary.BigEndian.PutUint16(w.dst[mark+1:], uint16(n))
	default:
		w.dst = slices.Insert(w.dst, mark+1, 0, 0, 0, 0)
		w.dst[mark] = wide + 1
		binary.BigEndian.PutUint32(w.dst[mark+1:], uint32(n))
	}
}

func (w *PackWriter) Len() int { return len(w.dst) }

func (w *PackWriter) Bytes() []byte { return w.dst }
