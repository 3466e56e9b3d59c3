package value_test

import (
	"math"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

func TestNumbersOfEveryTypeAreRead(t *testing.T) {
	t.Parallel()
	for _, v := range []any{int8(-7), int16(-7), int32(-7), int64(-7)} {
		if n, ok := value.Int(v); n != -7 || !ok {
			t.Errorf("Int(%T): got %d, %v", v, n, ok)
		}
	}
	for _, v := range []any{uint8(7), uint16(7), uint32(7), uint64(7), int64(7), float32(7), 7.0} {
		if f, ok := value.Float(v); f != 7 || !ok {
			t.Errorf("Float(%T): got %v, %v", v, f, ok)
		}
	}
	for _, v := range []any{nil, "7", true, 7.0, uint64(math.MaxInt64 + 1), value.Timestamp(7)} {
		if n, ok := value.Int(v); ok {
			t.Errorf("Int(%T(%v)): got %d", v, v, n)
		}
	}
	for _, v := range []any{nil, "7", int64(1)<<53 + 1, int64(-1)<<53 - 1, uint64(math.MaxUint64)} {
		if f, ok := value.Float(v); ok {
			t.Errorf("Float(%T(%v)): got %v", v, v, f)
		}
	}
	for _, v := range []any{int64(1)<<53 - 1, int64(-1) << 53} {
		if f, ok := value.Float(v); !ok || int64(f) != v.(int64) {
			t.Errorf("Float(%v): got %v, %v", v, f, ok)
		}
	}
}
