// Package codec reads and writes JSON and MessagePack as streams of values, without I/O. One Reader and
// one Writer serve both encodings, so that everything above them is written once.
package codec

import (
	"fmt"
	"iter"
)

// Encoding is a way to encode values.
type Encoding uint8

// The encodings.
const (
	JSON Encoding = iota
	MessagePack
)

// Kind is the kind of a value. JSON has no Float32, Binary, Instant and Extension. The zero Kind
// means that no value can be read.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota + 1
	Bool
	Int     // an integer of 64 bits with a sign
	Uint    // an integer of 64 bits that Int cannot hold
	Huge    // an integer beyond both
	Float   // a number with a fraction or an exponent
	Float32 // a Float of single precision
	Text
	Binary
	Instant
	Extension // of MessagePack, except for timestamps
	List
	Map
)

// String returns the name of the kind for refusals.
func (k Kind) String() string {
	return [...]string{
		"nothing", "null", "a boolean", "an integer", "an integer", "an integer", "a number", "a number",
		"a string", "binary", "a timestamp", "an extension", "a list", "a map",
	}[k]
}

// Error describes why data is not well-formed.
type Error struct {
	At   int // bytes from the start
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Text, e.At) }

// The texts of errors that both encodings have.
const (
	CutShort = "the payload ends in the middle of a value"
	LeftOver = "there is data after the value"
	NotUTF8  = "a string is not UTF-8"
)

// Reader reads an encoded value from its start, and checks it. A method that returns a value must
// be called only if Kind has returned the kind of that value. After an error nothing more can be
// read: Kind returns zero, More returns false, and other methods must not be called.
type Reader interface {
	Encoding() Encoding
	// Kind returns the kind of the next value.
	Kind() Kind
	// Null skips a null.
	Null()
	Bool() bool
	Int() int64
	Uint() uint64
	// Scalar reads the next value if it is a null, a Bool, an Int, a Uint or a Text, which it
	// copies into a string. For any other value it only returns the kind. It saves calls for
	// readers that convert all values.
	Scalar() (v any, k Kind)
	// Float reads a Float, a Float32 or, from JSON, any number. ok is false if a double cannot
	// represent the number.
	Float() (f float64, ok bool)
	// Text returns a text, which shares memory with the data if possible. This also applies to
	// Binary, Extension, Key and Skip.
	Text() []byte
	Binary() []byte
	// Instant returns milliseconds since the Unix epoch. ok is false if 64 bits are not enough.
	Instant() (ms int64, ok bool)
	Extension() (kind int8, data []byte)
	// Open enters a list or a map, and returns the number of elements, or 0 if it is not known.
	// More must be called next.
	Open() int
	// More reports whether the list or map that was entered last has another element or member. If
	// there is none, the list or map has ended.
	More() bool
	// Key reads the name of a member. It reads a key of MessagePack that is not a text as a value.
	Key() []byte
	// Only reports, after the first Key of a map, whether the map has no other key.
	Only() bool
	// Skip skips the next value and returns its encoding.
	Skip() []byte
	// Err returns the error, an *Error, if there was one.
	Err() error
	// End checks that no data follow. It returns the error, if there was one.
	End() error
	// Fail ends the reading with an error. It keeps an earlier error.
	Fail(text string)
	// Reset starts again with other data. checked means that a Reader has already checked them.
	Reset(data []byte, checked bool)
}

// Options determine what a Reader accepts.
type Options struct {
	Depth int // maximum nesting of lists and maps; at most MaxDepth

	// Frame is for parts of frames of the WebSocket protocol. Half of a surrogate pair in JSON is
	// read as U+FFFD, as browsers do. MessagePack must have no extensions, and only texts as keys.
	Frame bool
}

// MaxDepth is the maximum Depth in Options.
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

// Writer appends values. The caller opens and closes maps and lists.
type Writer interface {
	Encoding() Encoding
	Null()
	Bool(v bool)
	Int(v int64)
	Uint(v uint64)
	// Float writes a finite number.
	Float(v float64)
	// Float32 writes a finite number, in single precision if the encoding has that.
	Float32(v float32)
	Text(v string)
	TextBytes(v []byte)
	// Binary writes bytes: base64 in JSON.
	Binary(v []byte)
	// BinaryParts writes bytes that consist of several parts, with size bytes in total.
	BinaryParts(size int, parts iter.Seq[[]byte])
	// Instant writes milliseconds since the Unix epoch: in JSON as RFC 3339 or,
	// beyond the years 0 to 9999, as a number.
	Instant(ms int64)
	// JSON writes a JSON text. In JSON it writes the text unchanged.
	JSON(text []byte)
	OpenMap()
	// Key writes the name of a member and returns the writer for its value, which must follow.
	Key(name string) Writer
	KeyBytes(name []byte)
	CloseMap()
	OpenList()
	// CloseList ends a list of n elements.
	CloseList(n int)
	// Len returns the length of the slice to which the writer has appended.
	Len() int
	// Bytes returns the slice to which the writer has appended.
	Bytes() []byte
}

// WriteList writes a list, and each of its items with write.
func WriteList[T any](w Writer, items []T, write func(Writer, T)) {
	w.OpenList()
	for _, item := range items {
		write(w, item)
	}
	w.CloseList(len(items))
}

// NewWriter returns a writer that appends to dst.
func NewWriter(e Encoding, dst []byte) Writer {
	if e == JSON {
		return &jsonWriter{dst: dst, start: len(dst)}
	}
	return &PackWriter{dst: dst}
}
