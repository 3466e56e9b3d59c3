package builtin

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

const (
	maxSize     = 16 << 20 // bytes
	maxDepth    = 32       // levels of lists, maps and tags
	maxElements = 1 << 20  // elements of all lists, and keys and values of all maps
)

type malformed struct {
	format string
	at     int // position of the error in bytes
	text   string
}

func (m *malformed) Error() string {
	return fmt.Sprintf("not %s: %s at byte %d", m.format, m.text, m.at)
}

// Errors of all formats.
const (
	tooMany   = "there are more than 1048576 values"
	sameKey   = "a map has the same key twice"
	deepKey   = "a map has a key that is a list or a map"
	inexact   = "a number has too many digits"
	tooLarge  = "the payload is larger than 16 MiB"
	badNumber = "a number is malformed"
)

var errDepth = errors.New("the value is nested deeper than 32 levels")

// walk visits a value that is being written. After its first error, which it keeps, it visits
// nothing more.
type walk struct {
	left int // levels of nesting that may follow
	err  error
}

func (w *walk) fail(err error) { w.err = cmp.Or(w.err, err) }

func (w *walk) enter() {
	if w.left--; w.left < 0 {
		w.fail(errDepth)
	}
}

func (w *walk) elements(l value.List, visit func(any)) {
	w.enter()
	for i := 0; i < len(l) && w.err == nil; i++ {
		visit(l[i])
	}
	w.left++
}

// entries visits the keys and values of a map. keys is how many levels of nesting a key may have.
// If it is negative, entries visits only values.
func (w *walk) entries(m value.Map, keys int, visit func(any)) {
	w.enter()
	for left, i := w.left, 0; i < len(m) && w.err == nil; i++ {
		if keys >= 0 {
			w.left = keys
			visit(m[i].Key)
			w.left = left
		}
		visit(m[i].Value)
	}
	w.left++
}

const fewKeys = 12

// binaryKey replaces []byte as a map key, because slices are not comparable.
type binaryKey string

func keyOf(key any) any {
	if b, ok := key.([]byte); ok {
		return binaryKey(b)
	}
	return key
}

// isDistinct reports whether all keys differ. They must be scalars.
func isDistinct(m value.Map) bool {
	if len(m) <= fewKeys {
		for i := range m {
			for j := range i {
				if keyOf(m[i].Key) == keyOf(m[j].Key) {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[any]struct{}, len(m))
	for i := range m {
		seen[keyOf(m[i].Key)] = struct{}{}
	}
	return len(seen) == len(m)
}

func isKey(v any) bool {
	switch v.(type) {
	case value.List, value.Map, value.Array, value.Described:
		return false
	}
	return true
}

// simplified replaces types that only AMQP has. Symbols and chars become strings, and arrays become
// lists. Described values of .NET become texts; others become maps that include the descriptor.
// simplified does not change elements and members of v.
func simplified(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, []byte, uint64, int64, float32, float64, value.List, value.Map,
		value.Timestamp, value.UUID, value.Decimal32, value.Decimal64, value.Decimal128:
		return v, nil
	case uint8, uint16, uint32, int8, int16, int32:
		n, _ := value.Int(v)
		return n, nil
	case value.Symbol, value.Char:
		return value.Text(v), nil
	case value.Array:
		return value.List(v.Values), nil
	case value.Described:
		if _, ok := v.Descriptor.(value.Symbol); ok {
			switch v.Descriptor {
			case value.DescriptorTimeSpan, value.DescriptorURI, value.DescriptorDateTimeOffset:
				return value.Text(v), nil
			}
		}
		return value.Map{{Key: "descriptor", Value: v.Descriptor}, {Key: "value", Value: v.Value}}, nil
	}
	return nil, fmt.Errorf("the Go type %T has no AMQP type", v)
}
