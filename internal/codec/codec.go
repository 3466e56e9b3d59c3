// Package codec reads JSON, MessagePack and CBOR and writes JSON and MessagePack, value by value and
// without I/O. Reader and Writer are the same for all encodings.
package codec

import (
	"fmt"
	"iter"
)

type Encoding uint8

const (
	JSON Encoding = iota
	MessagePack
	CBOR // this package cannot write it
)

// Kind is the kind of a value. JSON has no Float32, Binary, Instant and Extension. The zero Kind
// means that no value can be read.
type Kind uint8

const (
	Null Kind = iota + 1
	Bool
	Int     // 64 bits, signed
	Uint    // 64 bits, unsigned, too large for Int
	Huge    // of more than 64 bits
	Float   // with a fraction or an exponent
	Float32 // a Float in single precision
	Text
	Binary
	Instant
	Extension // an extension type of MessagePack other than timestamp
	List
	Map
	Tag // in CBOR
)

func (k Kind) String() string {
	return [...]string{
		"nothing", "null", "a boolean", "an integer", "an integer", "an integer", "a number", "a number",
		"a string", "binary", "a timestamp", "an extension", "a list", "a map", "a tag",
	}[k]
}

type Error struct {
	At   int // position of the error in bytes
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Text, e.At) }

// Errors of all encodings.
const (
	CutShort = "the payload ends in the middle of a value"
	LeftOver = "there is data after the value"
	NotUTF8  = "a string is not UTF-8"
)

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
