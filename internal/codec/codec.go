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

// String names the kind as refusals do.
func (k Kind) String() string {
	return [...]string{
		"nothing", "null", "a boolean", "an integer", "an integer", "an integer", "a number", "a number",
		"a string", "binary", "a timestamp", "an extension", "a list", "a map",
	}[k]
}

// Error says why data is not well-formed.
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

// Reader goes through an encoded value from its start, and checks it. Its methods that return a
// value must be called only where Kind says that there is a value of that kind. After an error
// nothing more can be read: Kind is zero, More is false, and other methods must not be called.
type Reader interface {
	Encoding() Encoding
	// Kind returns the kind of the next value.
	Kind() Kind
	// Null passes over a null.
	Null()
	Bool() bool
	Int() int64
	Uint() uint64
	// Scalar reads the next value if it is a null, a Bool, an Int, a Uint or a Text, which is copied into a string.
	// For another value it returns only the kind. It saves calls for readers that turn everything into values.
	Scalar() (v any, k Kind)
	// Float reads a Float, Float32 or, from JSON, any number; ok is false for one beyond double precision.
	Float() (f float64, ok bool)
	// Text shares memory with the data, if it can. So do Binary, Extension, Key and Skip.
	Text() []byte
	Binary() []byte
	// Instant is in milliseconds since the Unix epoch; ok is false for one that 64 bits cannot hold.
	Instant() (ms int64, ok bool)
	Extension() (kind int8, data []byte)
	// Open enters a list or a map, and returns how many elements it has, 0 if that is not known. More must follow.
	Open() int
	// More reports whether there is another element, or member, in the list or map that was entered
	// last; if there is none, it has ended.
	More() bool
	// Key reads the name of a member. Keys of MessagePack that are not texts are read as values.
	Key() []byte
	// Only reports, after the first Key of a map, whether it is the only one.
	Only() bool
	// Skip passes over the next value and returns its encoding.
	Skip() []byte
	// Err returns the error, an *Error, if there was one.
	Err() error
	// End checks that nothing follows, and returns the error, if there was one.
	End() error
	// Fail ends the reading with an error, if there was none.
	Fail(text string)
	// Reset starts again with other data. checked says that a Reader has gone through the data before.
	Reset(data []byte, checked bool)
}

// Options say what a Reader accepts.
type Options struct {
	Depth int // that lists and maps may have: MaxDepth at most

	// Frame is for parts of frames of the WebSocket protocol: half a surrogate pair in JSON is read as
	// U+FFFD, as browsers do, and MessagePack may have no extensions, and no keys but texts.
	Frame bool
}

// MaxDepth is the largest Depth that Options may have.
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

// Writer appends values. Maps and lists are opened and closed.
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
	// BinaryParts writes bytes that come in parts, size bytes in total.
	BinaryParts(size int, parts iter.Seq[[]byte])
	// Instant writes milliseconds since the Unix epoch: in JSON as RFC 3339 or,
	// beyond the years 0 to 9999, as a number.
	Instant(ms int64)
	// JSON writes a JSON text: in JSON as it is.
	JSON(text []byte)
	OpenMap()
	// Key writes the name of a member, whose value is to be written next. It returns the writer for that.
	Key(name string) Writer
	KeyBytes(name []byte)
	CloseMap()
	OpenList()
	// CloseList ends a list of n elements.
	CloseList(n int)
	// Len is the length of what the writer has appended to.
	Len() int
	// Bytes is what the writer has appended to.
	Bytes() []byte
}

// WriteList writes a list, each item by write.
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
