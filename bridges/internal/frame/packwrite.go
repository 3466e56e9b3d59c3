package frame

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// packWriter writes each value in its shortest form.
type packWriter struct {
	dst  []byte
	open []opened
}

// opened is a map or list that is being written.
type opened struct{ mark, n int }

// Null implements Writer.
func (w *packWriter) Null() { w.dst = append(w.dst, packNil) }

// Bool implements Writer.
func (w *packWriter) Bool(v bool) {
	if v {
		w.dst = append(w.dst, packTrue)
	} else {
		w.dst = append(w.dst, packFalse)
	}
}

// Int implements Writer.
func (w *packWriter) Int(v int64) {
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

// Uint implements Writer.
func (w *packWriter) Uint(v uint64) {
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

// Float implements Writer.
func (w *packWriter) Float(v float64) {
	w.dst = binary.BigEndian.AppendUint64(append(w.dst, packFloat64), math.Float64bits(v))
}

// Float32 implements Writer.
func (w *packWriter) Float32(v float32) {
	w.dst = binary.BigEndian.AppendUint32(append(w.dst, packFloat32), math.Float32bits(v))
}

// Text implements Writer.
func (w *packWriter) Text(v string) {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	w.head(len(v), packFixStr, 32, packStr8, 1)
	w.dst = append(w.dst, v...)
}

// TextBytes implements Writer.
func (w *packWriter) TextBytes(v []byte) {
	if !utf8.Valid(v) {
		w.Text(string(v))
		return
	}
	w.head(len(v), packFixStr, 32, packStr8, 1)
	w.dst = append(w.dst, v...)
}

// Binary implements Writer.
func (w *packWriter) Binary(v []byte) {
	w.head(len(v), 0, 0, packBin8, 1)
	w.dst = append(w.dst, v...)
}

// BinaryParts implements Writer.
func (w *packWriter) BinaryParts(size int, parts iter.Seq[[]byte]) {
	w.head(size, 0, 0, packBin8, 1)
	for v := range parts {
		w.dst = append(w.dst, v...)
	}
}

// head appends the head of a value of n bytes: short+n if n is below few, else a
// format from wide on, the first of which has a size of first bytes.
func (w *packWriter) head(n int, short byte, few int, wide byte, first int) {
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

// Instant implements Writer.
func (w *packWriter) Instant(ms int64) {
	seconds, rest := ms/1000, ms%1000
	if rest < 0 {
		seconds, rest = seconds-1, rest+1000
	}
	nanos := uint64(rest) * 1e6
	switch {
	case seconds < 0 || seconds >= 1<<34:
		w.dst = append(w.dst, packExt8, 12, timestampType)
		w.dst = binary.BigEndian.AppendUint32(w.dst, uint32(nanos))
		w.dst = binary.BigEndian.AppendUint64(w.dst, uint64(seconds))
	case nanos == 0 && seconds <= math.MaxUint32:
		w.dst = binary.BigEndian.AppendUint32(append(w.dst, packFixExt4, timestampType), uint32(seconds))
	default:
		w.dst = binary.BigEndian.AppendUint64(append(w.dst, packFixExt8, timestampType), nanos<<34|uint64(seconds))
	}
}

// JSON implements Writer.
func (w *packWriter) JSON(text []byte) { w.TextBytes(text) }

// OpenMap implements Writer.
func (w *packWriter) OpenMap() {
	w.open = append(w.open, opened{mark: len(w.dst)})
	w.dst = append(w.dst, packFixMap)
}

// Key implements Writer.
func (w *packWriter) Key(name string) {
	w.open[len(w.open)-1].n++
	w.Text(name)
}

// KeyBytes implements Writer.
func (w *packWriter) KeyBytes(name []byte) {
	w.open[len(w.open)-1].n++
	w.TextBytes(name)
}

// CloseMap implements Writer.
func (w *packWriter) CloseMap() {
	w.close(w.open[len(w.open)-1].n, packFixMap, packMap16)
}

// OpenList implements Writer.
func (w *packWriter) OpenList() {
	w.open = append(w.open, opened{mark: len(w.dst)})
	w.dst = append(w.dst, packFixList)
}

// CloseList implements Writer.
func (w *packWriter) CloseList(n int) { w.close(n, packFixList, packList16) }

// close writes how many elements or members there are where the head has one
// byte, and makes room where it needs more.
func (w *packWriter) close(n int, short, wide byte) {
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

// Len implements Writer.
func (w *packWriter) Len() int { return len(w.dst) }

// Bytes implements Writer.
func (w *packWriter) Bytes() []byte { return w.dst }
