package frame

import (
	"iter"
	"unicode/utf8"
)

// Encoding is how frames are written.
type Encoding uint8

// The encodings.
const (
	JSON        Encoding = iota
	MessagePack          // with the timestamp extension, and no other
)

// Kind is what a value in a frame is. JSON has no Float32, Binary and Instant.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota + 1
	Bool
	Int     // a whole number of 64 bits with a sign
	Uint    // a whole number above those, of 64 bits
	Huge    // a whole number beyond both
	Float   // a number with a fraction or an exponent
	Float32 // the same of single precision
	Text
	Binary
	Instant
	List
	Map
)

// String names the kind as refusals do.
func (k Kind) String() string {
	return [...]string{
		"nothing", "null", "a boolean", "a whole number", "a whole number", "a whole number", "a number", "a number",
		"a text", "binary", "an instant", "a list", "a map",
	}[k]
}

// maxNesting is how deep a frame may be nested: its own parts, and a JSON body.
const maxNesting = 512

// Member is a member of a map, its value still encoded.
type Member struct {
	Key   string
	Value []byte
}

// Split checks a frame completely and returns the members of its map, in their
// order, appended to into. Values share memory with data.
func Split(e Encoding, data []byte, into []Member) ([]Member, error) {
	if e == JSON {
		return splitJSON(data, into)
	}
	return splitPack(data, into)
}

// Large is how many bytes a text or binary body has at least that shares memory
// with its frame, which then must not be used again. Smaller ones are copied.
const Large = 1 << 20

// Start returns the members that are complete in the start of a frame, as Split
// does.
func Start(e Encoding, data []byte) []Member {
	if e == JSON {
		for cut := 0; cut < utf8.UTFMax && !utf8.Valid(data); cut++ { // the last character may be cut
			data = data[:max(0, len(data)-1)]
		}
	}
	members, _ := Split(e, data, nil) // it ends too early
	return members
}

// Reader goes through a valid value from its start. Its methods that return a
// value must be called only where Kind says that there is one of that kind.
type Reader interface {
	// Kind tells what comes next.
	Kind() Kind
	// Null passes over a null.
	Null()
	Bool() bool
	Int() int64
	Uint() uint64
	// Float reads a Float or Float32; ok is false for one beyond double precision.
	Float() (f float64, ok bool)
	// Text is valid until the frame's memory is used again.
	Text() []byte
	// Binary is valid until the frame's memory is used again.
	Binary() []byte
	// Instant is in milliseconds since the Unix epoch; ok is false for one
	// that 64 bits cannot hold.
	Instant() (ms int64, ok bool)
	// Open enters a list or a map. More must follow.
	Open()
	// More reports whether there is another element, or member, in the list or
	// map that was entered last; if there is none, it has been left.
	More() bool
	// Key reads the name of a member. It is valid until the frame's memory is used again.
	Key() []byte
	// Only reports, after the first Key of a map, whether there is no other.
	Only() bool
	// Skip passes over the next value and returns its encoding.
	Skip() []byte
}

// NewReader returns a reader of a value that Split has found valid.
func NewReader(e Encoding, data []byte) Reader {
	if e == JSON {
		return &jsonReader{data: data}
	}
	return &packReader{data: data}
}

// Writer appends values to a frame. Maps and lists are opened and closed.
type Writer interface {
	Null()
	Bool(v bool)
	Int(v int64)
	Uint(v uint64)
	// Float writes a finite number.
	Float(v float64)
	// Float32 writes a finite number of single precision where there is such a thing.
	Float32(v float32)
	Text(v string)
	TextBytes(v []byte)
	// Binary writes bytes: base64 in JSON.
	Binary(v []byte)
	// BinaryParts writes bytes that come in parts, of size bytes together.
	BinaryParts(size int, parts iter.Seq[[]byte])
	// Instant writes milliseconds since the Unix epoch: in JSON as RFC 3339 or,
	// beyond the years 0 to 9999, as a number.
	Instant(ms int64)
	// JSON writes a JSON text: in JSON as it is.
	JSON(text []byte)
	OpenMap()
	Key(name string)
	KeyBytes(name []byte)
	CloseMap()
	OpenList()
	// CloseList ends a list of n elements.
	CloseList(n int)
	// Len is the length of what the writer has appended to.
	Len() int
	// Bytes is that itself.
	Bytes() []byte
}

// NewWriter returns a writer that appends to dst.
func NewWriter(e Encoding, dst []byte) Writer {
	if e == JSON {
		return &jsonWriter{dst: dst, start: len(dst)}
	}
	return &packWriter{dst: dst}
}

func isJSONReader(r Reader) bool {
	_, ok := r.(*jsonReader)
	return ok
}
