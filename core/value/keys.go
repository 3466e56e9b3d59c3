package value

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// isKey reports whether a map may have keys of that type. AMQP allows all types, but no client uses
// compound keys. Without these, keys can be compared as a few bytes.
func isKey(k Kind) bool { return k >= KindNull && k <= KindSymbol }

// key is equal for equal map keys, whatever the width of their encoding.
type key struct {
	kind Kind
	num  uint64 // numbers (sign-extended) and booleans
	data string // a key that is neither a number nor a boolean
}

func keyOf(b []byte) key {
	k := key{kind: KindOf(b)}
	if k.kind <= KindInt64 {
		k.num = Bits(b)
	} else {
		k.data = Alias(payload(b))
	}
	return k
}

// Bits returns a value of at most 64 bits (a boolean, a number, a char or a timestamp), in which
// only signed integers have their sign extended. b must be valid.
func Bits(b []byte) uint64 {
	switch code := b[0]; kinds[code] {
	case KindInt8, KindInt16, KindInt32, KindInt64:
		return uint64(signed(payload(b)))
	default:
		return unsigned(code, payload(b))
	}
}

// Alias returns b as a string without copying it. b must not change as long as the string is used.
func Alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unsigned decodes up to 64 bits with that constructor code.
func unsigned(code byte, data []byte) uint64 {
	switch len(data) {
	case 0: // the constants true, false, uint0 and ulong0
		if code == codeTrue {
			return 1
		}
		return 0
	case 1:
		return uint64(data[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(data))
	case 4:
		return uint64(binary.BigEndian.Uint32(data))
	default:
		return binary.BigEndian.Uint64(data)
	}
}

func signed(data []byte) int64 {
	switch len(data) {
	case 1:
		return int64(int8(data[0]))
	case 2:
		return int64(int16(binary.BigEndian.Uint16(data)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(data)))
	default:
		return int64(binary.BigEndian.Uint64(data))
	}
}

const fewKeys = 32

func hasDuplicateKeys(entries []byte, n int) bool {
	if n > fewKeys {
		return hasDuplicateAmongMany(entries, n)
	}
	var seen [fewKeys]key
	for i := range n {
		k := keyOf(entries)
		if slices.Contains(seen[:i], k) {
			return true
		}
		seen[i] = k
		entries = afterEntry(entries)
	}
	return false
}

func hasDuplicateAmongMany(entries []byte, n int) bool {
	seen := make(map[key]struct{}, n)
	for range n {
		seen[keyOf(entries)] = struct{}{}
		entries = afterEntry(entries)
	}
	return len(seen) < n
}

// b must be valid.
func afterEntry(b []byte) []byte {
	n, _ := extent(b)
	b = b[n:]
	n, _ = extent(b)
	return b[n:]
}
