package rules

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"math/big"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

// decimalOf encodes coefficient × 10^exponent in n bytes.
func decimalOf(n int, exponentBits uint, bias, exponent int, coefficient string) []byte {
	c, _ := new(big.Int).SetString(coefficient, 10)
	coefficientBits := uint(n)*8 - 1 - exponentBits
	e := big.NewInt(int64(exponent + bias))
	bits := new(big.Int)
	if c.BitLen() <= int(coefficientBits) {
		bits.Or(e.Lsh(e, coefficientBits), c)
	} else {
		bits.Lsh(big.NewInt(0b11), uint(n)*8-3)
		c.SetBit(c, int(coefficientBits), 0)
		bits.Or(bits, e.Lsh(e, coefficientBits-2))
		bits.Or(bits, c)
	}
	return bits.FillBytes(make([]byte, n))
}

func TestDecimalsAreReadAsDoubles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		exponent    int
		coefficient string
		want        float64
	}{
		{0, "0", 0},
		{0, "1", 1},
		{-1, "25", 2.5},
		{-2, "1999", 19.99},
		{3, "7", 7000},
		{-7, "9999999", 0.9999999},
		{0, "9999999", 9999999},
		{0, "8388608", 8388608},
		{90, "1", 1e90},
		{-95, "1", 1e-95},
	} {
		d32 := value.Decimal32(decimalOf(4, 8, 101, c.exponent, c.coefficient))
		d64 := value.Decimal64(decimalOf(8, 10, 398, c.exponent, c.coefficient))
		d128 := value.Decimal128(decimalOf(16, 14, 6176, c.exponent, c.coefficient))
		for _, v := range []any{d32, d64, d128} {
			raw, err := value.Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if got := decode(raw); got != realOf(c.want) {
				t.Errorf("%se%d as %T: got %v, want %v", c.coefficient, c.exponent, v, got.real(), c.want)
			}
			raw[1] |= 0x80
			if got := decode(raw).real(); got != -c.want || !math.Signbit(got) {
				t.Errorf("-%se%d as %T: got %v", c.coefficient, c.exponent, v, got)
			}
		}
	}
	d64 := value.Decimal64(decimalOf(8, 10, 398, 0, "9999999999999999"))
	if got := d64.Float64(); got != 9999999999999999 {
		t.Errorf("the largest coefficient: got %v", got)
	}
	if got := value.Decimal128(decimalOf(16, 14, 6176, 6000, "1")).Float64(); !math.IsInf(got, 1) {
		t.Errorf("beyond a double: got %v", got)
	}
	if got := (value.Decimal32{0xf8}).Float64(); !math.IsInf(got, -1) {
		t.Errorf("-infinity: got %v", got)
	}
	if got := (value.Decimal128{0x7c}).Float64(); !math.IsNaN(got) {
		t.Errorf("NaN: got %v", got)
	}
}

// numbers are hard to compare, in their order; those in a group are equal.
var orderedNumbers = [][]datum{
	{realOf(math.Inf(-1))},
	{realOf(-1e300)},
	{integerOf(math.MinInt64), realOf(math.MinInt64)},
	{integerOf(math.MinInt64 + 1)},
	{realOf(-9007199254740994), integerOf(-9007199254740994)},
	{integerOf(-9007199254740993)},
	{realOf(-9007199254740992), integerOf(-9007199254740992)},
	{realOf(-1.5)},
	{integerOf(-1), realOf(-1)},
	{realOf(-0.5)},
	{integerOf(0), realOf(0), realOf(math.Copysign(0, -1))},
	{realOf(0.5)},
	{integerOf(1), realOf(1)},
	{realOf(9007199254740992), integerOf(9007199254740992)},
	{integerOf(9007199254740993)},
	{integerOf(math.MaxInt64)},
	{unsignedOf(1 << 63), realOf(1 << 63)},
	{unsignedOf(1<<63 + 1)},
	{unsignedOf(math.MaxUint64)},
	{realOf(1 << 64)},
	{realOf(1e300)},
	{realOf(math.Inf(1))},
}

func TestNumbersCompareExactly(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	for i, as := range orderedNumbers {
		for j, bs := range orderedNumbers {
			for _, a := range as {
				for _, b := range bs {
					for r := less; r <= greaterOrEqual; r++ {
						if got, want := compare(r, a, b), truthOf(r.holds(cmp.Compare(i, j))); got != want {
							t.Errorf("%v, %v, relation %d: got %v, want %v", a, b, r, got, want)
						}
					}
					if i == j && a.hash(seed) != b.hash(seed) {
						t.Errorf("%v and %v are equal and have two hashes", a, b)
					}
				}
			}
		}
	}
	nan := realOf(math.NaN())
	for _, other := range []datum{nan, integerOf(1), realOf(1), unsignedOf(1 << 63)} {
		for r := less; r <= greaterOrEqual; r++ {
			if a, b, want := compare(r, nan, other), compare(r, other, nan), truthOf(r == unequal); a != want || b != want {
				t.Errorf("NaN and %v, relation %d: got %v and %v, want %v", other, r, a, b, want)
			}
		}
	}
}

func TestIntegerArithmeticIsExactOrRefused(t *testing.T) {
	t.Parallel()
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, -3, -2, -1, 0, 1, 2, 3, 1 << 31, 1 << 32, 3037000500, math.MaxInt64 - 1, math.MaxInt64}
	operators := map[byte]func(z, x, y *big.Int) *big.Int{
		'+': (*big.Int).Add, '-': (*big.Int).Sub, '*': (*big.Int).Mul, '/': (*big.Int).Quo, '%': (*big.Int).Rem,
	}
	for op, exact := range operators {
		for _, a := range edges {
			for _, b := range edges {
				got, err := calculate(op, integerOf(a), integerOf(b))
				if b == 0 && (op == '/' || op == '%') {
					if err == nil {
						t.Errorf("%d %c 0: got %v, want an error", a, op, got)
					}
					continue
				}
				want := exact(new(big.Int), big.NewInt(a), big.NewInt(b))
				if (err == nil) != want.IsInt64() || err == nil && got != integerOf(want.Int64()) {
					t.Errorf("%d %c %d: got %v, %v, want %v", a, op, b, got.int(), err, want)
				}
			}
		}
	}
}

func TestTimeSpansAsText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"00:05:00":                   5 * value.TicksPerMinute,
		"PT90S":                      90 * value.TicksPerSecond,
		"P1D":                        value.TicksPerDay,
		"P365000D":                   365000 * value.TicksPerDay,
		"P10675199DT2H48M5.4775807S": math.MaxInt64,
	} {
		if ticks, err := parseTimeSpan(in); err != nil || ticks != want {
			t.Errorf("%s: got %d, %v, want %d", in, ticks, err, want)
		}
	}
	for _, in := range []string{"", "5", "P", "PX"} {
		if ticks, err := parseTimeSpan(in); err == nil {
			t.Errorf("%q: got %d, want an error", in, ticks)
		}
	}
}

// TestValuesKeepTheirType shows for every type that what is decoded is encoded
// as the same value of the same type.
func TestValuesKeepTheirType(t *testing.T) {
	t.Parallel()
	for key, raw := range value.MapEntries(testMessage(t).Properties.Encoded()) {
		switch string(key) {
		case "far", "early", "odd span", "nothing", "dec", "bytes", "list", "odd":
			continue // not converted to; copied
		}
		if got, ok := decode(raw).encodeAs(nil, raw); !ok || !bytes.Equal(got, raw) {
			t.Errorf("%s: got %x, %t, want %x", key, got, ok, raw)
		}
	}
}
