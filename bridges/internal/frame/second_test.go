package frame

import (
	"bytes"
	"math"
	"reflect"
	"time"
)

// sameForeign compares what another library has decoded with what was meant,
// whatever the widths of the integers.
func sameForeign(got, want any) bool {
	switch want := want.(type) {
	case instant:
		t, ok := got.(time.Time)
		return ok && t.UnixMilli() == int64(want)
	case uint64:
		n, ok := got.(uint64)
		return ok && n == want
	case int64:
		v := reflect.ValueOf(got)
		switch {
		case v.CanInt():
			return v.Int() == want
		case v.CanUint():
			return v.Uint() == uint64(want) && want >= 0
		}
		return false
	case float64:
		f, ok := got.(float64)
		return ok && math.Float64bits(f) == math.Float64bits(want)
	case float32:
		f, ok := got.(float32)
		return ok && math.Float32bits(f) == math.Float32bits(want)
	case []byte:
		b, ok := got.([]byte)
		return ok && bytes.Equal(b, want)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !sameForeign(list[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok || len(m) != len(want) {
			return false
		}
		for k := range want {
			if !sameForeign(m[k], want[k]) {
				return false
			}
		}
		return true
	default:
		return got == want
	}
}
