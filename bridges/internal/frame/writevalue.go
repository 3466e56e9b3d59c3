package frame

import (
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const maxPlain = 1<<53 - 1

// wholeFloats is the number from which JavaScript writes integral floats with an exponent.
const wholeFloats = 1e21

func WriteValue(w codec.Writer, b []byte) {
	switch value.KindOf(b) {
	case value.KindString:
		if s, _, err := value.ReadString(b); err == nil {
			w.Text(value.Alias(s))
			return
		}
	case value.KindBinary:
		if data, _, err := value.ReadBinary(b); err == nil {
			writeBinary(w, data)
			return
		}
	case value.KindBool:
		if v, _, err := value.ReadBool(b); err == nil {
			w.Bool(v)
			return
		}
	}
	v, _, err := value.Decode(b, value.Limits{})
	if err != nil {
		w.Null()
		return
	}
	Write(w, v)
}

func writeBinary(w codec.Writer, v []byte) {
	if w.Encoding() == codec.MessagePack {
		w.Binary(v)
		return
	}
	w.OpenMap()
	w.Key(tags[value.KindBinary]).Binary(v)
	w.CloseMap()
}

func Write(w codec.Writer, v any) {
	if isPlain(v, w.Encoding() == codec.MessagePack) {
		writeBare(w, v)
		return
	}
	w.OpenMap()
	writeBare(w.Key(tags[value.KindOfValue(v)]), v)
	w.CloseMap()
}

// isPlain reports whether v needs no tag in MessagePack (pack) or in JSON. Values of unknown types
// need none: they become null.
func isPlain(v any, pack bool) bool {
	switch v := v.(type) {
	case nil, bool, string, value.List:
		return true
	case value.Map:
		return isPlainMap(v)
	case int64:
		return pack || v <= maxPlain && v >= -maxPlain
	case float64:
		return pack || !math.IsNaN(v) && (v != math.Trunc(v) || math.Abs(v) >= wholeFloats && !math.IsInf(v, 0))
	case uint64:
		return pack && v > math.MaxInt64
	case float32, value.Timestamp, []byte:
		return pack
	}
	return value.KindOfValue(v) == value.KindInvalid
}

// isPlainMap reports whether all keys are strings and m does not look tagged: {"$name": value}.
func isPlainMap(m value.Map) bool {
	for _, e := range m {
		key, ok := e.Key.(string)
		if !ok || len(m) == 1 && len(key) > 0 && key[0] == '$' {
			return false
		}
	}
	return true
}

func writeBare(w codec.Writer, v any) {
	pack := w.Encoding() == codec.MessagePack
	switch v := v.(type) {
	case bool:
		w.Bool(v)
	case string:
		w.Text(v)
	case int64:
		if pack || v <= maxPlain && v >= -maxPlain {
			w.Int(v)
		} else {
			w.Text(strconv.FormatInt(v, 10))
		}
	case uint64:
		if pack || v <= maxPlain {
			w.Uint(v)
		} else {
			w.Text(strconv.FormatUint(v, 10))
		}
	case float64:
		writeFloat(w, v, pack, func() { w.Float(v) })
	case float32:
		writeFloat(w, float64(v), pack, func() { w.Float32(v) })
	case uint8, uint16, uint32, int8, int16, int32:
		n, _ := value.Int(v)
		w.Int(n)
	case value.Decimal32:
		w.Text(hex.EncodeToString(v[:]))
	case value.Decimal64:
		w.Text(hex.EncodeToString(v[:]))
	case value.Decimal128:
		w.Text(hex.EncodeToString(v[:]))
	case value.Char:
		if utf8.ValidRune(rune(v)) {
			w.Text(string(rune(v)))
		} else {
			w.Int(int64(v)) // half of a surrogate pair cannot be in a string
		}
	case value.Timestamp:
		w.Instant(int64(v))
	case value.UUID:
		w.Text(v.String())
	case []byte:
		w.Binary(v)
	case value.Symbol:
		w.Text(string(v))
	case value.List:
		codec.WriteList(w, v, Write)
	case value.Map:
		writeMap(w, v)
	case value.Array:
		writeArray(w, v)
	case value.Described:
		codec.WriteList(w, []any{v.Descriptor, v.Value}, Write)
	default:
		w.Null()
	}
}

// writeFloat calls finite or, if the encoding cannot express v, writes a name such as NaN.
func writeFloat(w codec.Writer, v float64, pack bool, finite func()) {
	switch {
	case pack || !math.IsNaN(v) && !math.IsInf(v, 0):
		finite()
	case math.IsNaN(v):
		w.Text("NaN")
	case v > 0:
		w.Text("Infinity")
	default:
		w.Text("-Infinity")
	}
}

func writeMap(w codec.Writer, m value.Map) {
	if !isPlainMap(m) {
		writePairs(w, m)
		return
	}
	w.OpenMap()
	for _, e := range m {
		Write(w.Key(e.Key.(string)), e.Value)
	}
	w.CloseMap()
}

func writeArray(w codec.Writer, a value.Array) {
	w.OpenList()
	w.Text(a.Elem.String())
	element := writeBare
	if a.Elem == value.KindMap {
		element = func(w codec.Writer, v any) { writePairs(w, v) }
	}
	codec.WriteList(w, a.Values, element)
	n := 2
	if a.Descriptor != nil {
		Write(w, a.Descriptor)
		n++
	}
	w.CloseList(n)
}

func writePairs(w codec.Writer, v any) {
	m, _ := v.(value.Map)
	codec.WriteList(w, m, func(w codec.Writer, e value.Entry) { codec.WriteList(w, []any{e.Key, e.Value}, Write) })
}
