package value

import (
	"iter"
	"unicode/utf8"
)

// Each Read function returns the first value in b, which must have the type in the function's name,
// and the bytes after it. It allocates only if it fails. Slices share the memory of b.

func ReadBool(b []byte) (v bool, rest []byte, err error) {
	code, data, rest, err := read(b, KindBool)
	if err != nil {
		return false, nil, err
	}
	n := unsigned(code, data)
	if n > 1 {
		return false, nil, fail(0, "boolean is 0x%02x, want 0 or 1", n)
	}
	return n == 1, rest, nil
}

func ReadUint8(b []byte) (v uint8, rest []byte, err error) {
	n, rest, err := readUnsigned(b, KindUint8)
	return uint8(n), rest, err
}

func ReadUint16(b []byte) (v uint16, rest []byte, err error) {
	n, rest, err := readUnsigned(b, KindUint16)
	return uint16(n), rest, err
}

func ReadUint32(b []byte) (v uint32, rest []byte, err error) {
	n, rest, err := readUnsigned(b, KindUint32)
	return uint32(n), rest, err
}

func ReadUint64(b []byte) (v uint64, rest []byte, err error) {
	return readUnsigned(b, KindUint64)
}

func ReadInt32(b []byte) (v int32, rest []byte, err error) {
	n, rest, err := readSigned(b, KindInt32)
	return int32(n), rest, err
}

func ReadInt64(b []byte) (v int64, rest []byte, err error) {
	return readSigned(b, KindInt64)
}

func ReadTimestamp(b []byte) (v Timestamp, rest []byte, err error) {
	n, rest, err := readSigned(b, KindTimestamp)
	return Timestamp(n), rest, err
}

func ReadUUID(b []byte) (v UUID, rest []byte, err error) {
	_, data, rest, err := read(b, KindUUID)
	if err != nil {
		return UUID{}, nil, err
	}
	return UUID(data), rest, nil
}

func ReadBinary(b []byte) (v, rest []byte, err error) {
	_, v, rest, err = read(b, KindBinary)
	return v, rest, err
}

func ReadString(b []byte) (v, rest []byte, err error) { return readText(b, KindString) }

func ReadSymbol(b []byte) (v, rest []byte, err error) { return readText(b, KindSymbol) }

func ReadText(b []byte) (v, rest []byte, err error) {
	if KindOf(b) == KindSymbol {
		return readText(b, KindSymbol)
	}
	return readText(b, KindString)
}

// The elements are not validated.
func ReadList(b []byte) (n int, elements, rest []byte, err error) { return readCompound(b, KindList) }

// n is the number of entries, which are not validated.
func ReadMap(b []byte) (n int, entries, rest []byte, err error) {
	n, entries, rest, err = readCompound(b, KindMap)
	if n%2 != 0 {
		return 0, nil, nil, fail(0, "map has a key without a value")
	}
	return n / 2, entries, rest, err
}

// ReadRaw returns the first value of b, encoded. It may be described. Contents are not validated.
func ReadRaw(b []byte) (raw, rest []byte, err error) {
	n, ok := extent(b)
	if !ok {
		return nil, nil, fail(0, "%s is truncated", KindOf(b))
	}
	return b[:n:n], b[n:], nil
}

// MapEntries yields keys that are strings or symbols, each with its encoded value, and skips other
// entries. If b is not a valid map, it stops without an error: callers must first validate a
// client's bytes with Skip.
func MapEntries(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		n, entries, _, err := ReadMap(b)
		if err != nil {
			return
		}
		for range n {
			k, after, err := ReadRaw(entries)
			if err != nil {
				return
			}
			v, after, err := ReadRaw(after)
			if err != nil {
				return
			}
			entries = after
			if kind := KindOf(k); kind != KindString && kind != KindSymbol {
				continue
			}
			if !yield(payload(k), v) {
				return
			}
		}
	}
}

func read(b []byte, want Kind) (code byte, data, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, nil, fail(0, "the data ends before a %s", want)
	}
	code = b[0]
	if kinds[code] != want {
		return 0, nil, nil, fail(0, "constructor 0x%02x is %s, want %s", code, kinds[code], want)
	}
	n := dataExtent(code, b[1:])
	if n < 0 || n > len(b)-1 {
		return 0, nil, nil, fail(0, "%s is truncated", want)
	}
	return code, content(code, b[1:]), b[1+n:], nil
}

func readUnsigned(b []byte, want Kind) (uint64, []byte, error) {
	code, data, rest, err := read(b, want)
	return unsigned(code, data), rest, err
}

func readSigned(b []byte, want Kind) (int64, []byte, error) {
	_, data, rest, err := read(b, want)
	if err != nil {
		return 0, nil, err
	}
	return signed(data), rest, nil
}

func readText(b []byte, want Kind) (v, rest []byte, err error) {
	_, v, rest, err = read(b, want)
	if err == nil && !utf8.Valid(v) {
		return nil, nil, fail(0, "%s is not valid UTF-8", want)
	}
	return v, rest, err
}

func readCompound(b []byte, want Kind) (n int, elements, rest []byte, err error) {
	code, data, rest, err := read(b, want)
	if err != nil {
		return 0, nil, nil, err
	}
	count, elements, ok := counted(code, data)
	if !ok {
		return 0, nil, nil, fail(0, "%s has no count", want)
	}
	if count > uint64(len(elements)) { // an element has at least a constructor
		return 0, nil, nil, fail(0, "%s has %d elements in %d bytes, which is not possible", want, count, len(elements))
	}
	return int(count), elements, rest, nil
}
