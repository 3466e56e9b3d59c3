package value

import (
	"bytes"
	"math"
	"slices"
)

// Equal reports whether a and b are the same value of the same type. Floats are compared bit by bit, so a NaN equals
// itself; maps are equal only in the same order (AMQP 1.0 §1.6.23). Values of foreign Go types are equal to nothing.
func Equal(a, b any) bool {
	k := KindOfValue(a)
	if k == KindInvalid || k != KindOfValue(b) {
		return false
	}
	switch a := a.(type) {
	case float32:
		return math.Float32bits(a) == math.Float32bits(b.(float32))
	case float64:
		return math.Float64bits(a) == math.Float64bits(b.(float64))
	case []byte:
		return bytes.Equal(a, b.([]byte))
	case List:
		return slices.EqualFunc(a, b.(List), Equal)
	case Map:
		return slices.EqualFunc(a, b.(Map), func(x, y Entry) bool {
			return Equal(x.Key, y.Key) && Equal(x.Value, y.Value)
		})
	case Array:
		b := b.(Array)
		return a.elem() == b.elem() && Equal(a.Descriptor, b.Descriptor) && slices.EqualFunc(a.Values, b.Values, Equal)
	case Described:
		b := b.(Described)
		return Equal(a.Descriptor, b.Descriptor) && Equal(a.Value, b.Value)
	}
	return a == b
}
