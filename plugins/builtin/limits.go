package builtin

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// The maximum size of a payload.
const (
	maxSize     = 16 << 20 // bytes
	maxDepth    = 32       // lists, maps and tags; the outermost one is at depth 1
	maxElements = 1 << 20  // of all lists, and keys and values of all maps
)

// malformed says what is wrong with a payload, and where.
type malformed struct {
	format string
	at     int // bytes from its start
	text   string
}

func (m *malformed) Error() string {
	return fmt.Sprintf("not %s: %s at byte %d", m.format, m.text, m.at)
}

// The texts for errors that occur in every format.
const (
	tooDeep    = "values are nested deeper than 32"
	tooMany    = "there are more than 1048576 values"
	cutShort   = codec.CutShort
	leftOver   = codec.LeftOver
	notUTF8    = codec.NotUTF8
	sameKey    = "a map has the same key twice"
	deepKey    = "a map has a key that is a list or a map"
	inexact    = "a number has too many digits"
	tooLarge   = "the payload is larger than 16 MiB"
	strayBreak = "a break code is outside of an indefinite-length value"
	badNumber  = "a number is malformed"
)

// fewKeys is the number of keys of a map up to which they are compared with each other.
const fewKeys = 12

// binaryKey replaces a []byte, which cannot be compared.
type binaryKey string

// keyOf returns a key in a form that can be compared.
func keyOf(key any) any {
	if b, ok := key.([]byte); ok {
		return binaryKey(b)
	}
	return key
}

// isDistinct reports whether no two keys are the same. The keys must not be compound values.
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

// isKey reports whether a value may be the key of a map.
func isKey(v any) bool {
	switch v.(type) {
	case value.List, value.Map, value.Array, value.Described:
		return false
	}
	return true
}

// simplified returns a value without the types that only AMQP has. Symbols and chars become
// strings, and arrays become lists. .NET's described values become their text, others a map with
// their descriptor. It does not change the values inside.
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
