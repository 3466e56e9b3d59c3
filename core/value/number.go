package value

import "math"

// Int is the number that v, of any integer type, is; ok is false for other
// types and beyond 63 bits.
func Int(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}

// Float is the number that v, of a floating-point or integer type, is; ok is
// false for other types, and for integers that a double may not hold exactly.
func Float(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	n, ok := Int(v)
	return float64(n), ok && n>>53 == n>>63
}
