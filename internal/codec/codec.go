// Package codec reads and writes JSON and MessagePack value by value, without I/O. The interfaces
// Reader and Writer are the same for both encodings.
package codec

import (
	"fmt"
	"iter"
)

type Encoding uint8

const (
	JSON Encoding = iota
	MessagePack
)

// Kind is the kind of a value. JSON has no Float32, Binary, Instant and Extension. The zero Kind
// means that no value can be read.
type Kind uint8

const (
	Null Kind = iota + 1
	Bool
	Int     // 64 bits, signed
	Uint    // 64 bits, unsigned, too large for Int
	Huge    // an integer too large for Int and Uint
	Float   // with a fraction or an exponent
	Float32 // a Float in single precision
	Text
	Binary
	Instant
	Extension // an extension type of MessagePack other than timestamp
	List
	Map
)

func (k Kind) String() string {
	return [...]string{
		"nothing", "null", "a boolean", "an integer", "an integer", "an integer", "a number", "a number",
		"a string", "binary", "a timestamp", "an extension", "a list", "a map",
	}[k]
}

type Error struct {
	At   int // in bytes
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Text, e.At) }

// Errors of both encodings.
const (
	CutShort = "the payload ends in the middle of a value"
	LeftOver = "there is data after the value"
	NotUTF8  = "a string is not UTF-8"
)

// Reader reads and checks an encoded value, from its start. A method that returns a value may be
// called only if Kind has returned the kind of that value. After an error nothing more can be read:
// Kind returns zero, More returns false, and other methods must not be called.
type Reader interface {
	Encoding() Encoding
	Kind() Kind
	Null()
	Bool() bool
	Int() int64
	Uint() uint64
	// Scalar reads the next value if it is a null, a Bool, an Int, a Uint or a Text, which becomes
	// a string. For any other value it only returns the kind. It saves calls for code that converts
	// all values.
	Scalar() (v any, k Kind)
	// Float reads a Float, a Float32 or, in JSON, any number. ok is false if a double cannot hold
	// the number.
	Float() (f float64, ok bool)
	// Text returns a text. Like the results of Binary, Extension, Key and Skip, it shares memory
	// with the data if possible.
	Text() []byte
	Binary() []byte
	// Instant returns milliseconds since the Unix epoch. ok is false if an int64 cannot hold them.
	Instant() (ms int64, ok bool)
	Extension() (kind int8, data []byte)
	// Open enters a list or a map, and returns the number of elements or members, or 0 if it is
	// unknown. The next call must be More.
	Open() int
	// More reports whether the innermost open list or map has another element or member. If not,
	// the list or map has ended.
	More() bool
	// Key reads the name of a member. In MessagePack, a key that is not a text is instead read as a
	// value.
	Key() []byte
	// After the first Key of a map, Only reports whether the map has no other key.
	Only() bool
	// Skip returns the encoding of the value.
	Skip() []byte
	Err() error
	End() error
	// Only the first error is kept.
	Fail(text string)
	// Reset starts again with other data. checked is true if a Reader has already checked them.
	Reset(data []byte, checked bool)
}

type Options struct {
	Depth int // largest nesting of lists and maps, at most MaxDepth

	// Frame is true for frames of the WebSocket protocol and parts of them. Half of a surrogate
	// pair in JSON is then read as U+FFFD, as in browsers. MessagePack must have no extensions, and
	// only texts as keys.
	Frame bool
}

const MaxDepth = 512

// NewReader returns a reader of data. JSON must be UTF-8.
func NewReader(e Encoding, data []byte, o Options) Reader {
	if e == JSON {
		return &jsonReader{data: data, o: o}
	}
	r := &packReader{data: data, o: o}
	r.left = r.few[:0]
	return r
}

type Writer interface {
	Encoding() Encoding
	Null()
	Bool(v bool)
	Int(v int64)
	Uint(v uint64)
	// Float writes a finite number.
	Float(v float64)
	// Float32 writes a finite number, in single precision if the encoding has it.
	Float32(v float32)
	Text(v string)
	TextBytes(v []byte)
	// Binary writes bytes: base64 in JSON.
	Binary(v []byte)
	// BinaryParts writes bytes in several parts, which have size bytes together.
	BinaryParts(size int, parts iter.Seq[[]byte])
	// Instant writes milliseconds since the Unix epoch. In JSON they become RFC 3339 or, beyond the
	// years 0 to 9999, a number.
	Instant(ms int64)
	// JSON writes a JSON text: unchanged in JSON, and as a string in MessagePack.
	JSON(text []byte)
	OpenMap()
	// Key returns the writer for the value, which must follow.
	Key(name string) Writer
	KeyBytes(name []byte)
	CloseMap()
	OpenList()
	// CloseList ends a list of n elements.
	CloseList(n int)
	Len() int
	Bytes() []byte
}

func WriteList[T any](w Writer, items []T, write func(Writer, T)) {
	w.OpenList()
	for _, item := range items {
		write(w, item)
	}
	w.CloseList(len(items))
}

func NewWriter(e Encoding, dst []byte) Writer {
	if e == JSON {
		return &jsonWriter{dst: dst, start: len(dst)}
	}
	return &PackWriter{dst: dst}
}
