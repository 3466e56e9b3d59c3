package value

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimalForm is a decimal interchange format of IEEE 754-2008.
type decimalForm struct {
	exponentBits uint
	bias         int
	precision    int // in digits
}

var (
	form32  = decimalForm{8, 101, 7}
	form64  = decimalForm{10, 398, 16}
	form128 = decimalForm{14, 6176, 34}
)

// String returns all digits, as in 12.50, -3, 1E+40.
func (d Decimal32) String() string { return form32.read(d[:]).String() }

func (d Decimal64) String() string { return form64.read(d[:]).String() }

func (d Decimal128) String() string { return form128.read(d[:]).String() }

func (d Decimal32) Float64() float64 { return nearest(d.String()) }

func (d Decimal64) Float64() float64 { return nearest(d.String()) }

// Float64 returns the nearest double, which is infinite outside the range of doubles.
func (d Decimal128) Float64() float64 { return nearest(d.String()) }

// decimal is ± coefficient × 10^exponent.
type decimal struct {
	negative    bool
	special     string   // "NaN" or "Infinity": then coefficient and exponent are not set
	coefficient *big.Int // not negative
	exponent    int
	precision   int // number of digits of the format
}

// read decodes the binary integer encoding (AMQP 1.0 §1.6.13–15).
func (form decimalForm) read(b []byte) decimal {
	bits := new(big.Int).SetBytes(b)
	field := func(low, width uint) *big.Int {
		mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), width), big.NewInt(1))
		return mask.And(mask, new(big.Int).Rsh(bits, low))
	}
	total := uint(len(b)) * 8
	d := decimal{negative: bits.Bit(int(total-1)) == 1, precision: form.precision}
	coefficientBits := total - 1 - form.exponentBits
	exponent := field(coefficientBits, form.exponentBits)
	d.coefficient = field(0, coefficientBits)
	if field(total-3, 2).Int64() == 3 { // a large coefficient, or not a number
		if field(total-5, 4).Int64() == 15 {
			d.special = "Infinity"
			if bits.Bit(int(total-6)) == 1 {
				d.special = "NaN"
			}
			return d
		}
		exponent, d.coefficient = field(coefficientBits-2, form.exponentBits), field(0, coefficientBits-2)
		d.coefficient.SetBit(d.coefficient, int(coefficientBits), 1)
	}
	if d.coefficient.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(form.precision)), nil)) >= 0 {
		d.coefficient.SetInt64(0) // not canonical: zero by IEEE 754-2008 §3.5.2
	}
	biased := int(exponent.Int64())
	if form == form128 {
		biased = mendExponent(biased)
	}
	d.exponent = biased - form.bias
	return d
}

// mendExponent corrects the exponent of a decimal from .NET. The AMQP library of .NET writes bits 9
// to 13 of the exponent to the place of bits 7 to 11, and leaves out bits 7 and 8, which are zero
// in all exponents of .NET's decimals. By the standard, the result is a number of about 10^-4600,
// which no other program writes.
func mendExponent(biased int) int {
	const written, meant, low = 12 << 7, 12 << 9, 1<<7 - 1
	if biased&^low != written {
		return biased
	}
	return meant | biased&low
}

func (d decimal) String() string {
	sign := ""
	if d.negative && d.special != "NaN" {
		sign = "-"
	}
	if d.special != "" {
		return sign + d.special
	}
	return sign + placePoint(d.coefficient.String(), d.exponent, d.precision)
}

func nearest(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64) // an error comes only with an infinity
	return f
}

func placePoint(digits string, e, precision int) string {
	switch {
	case e == 0:
		return digits
	case e > 0 || -e > 2*precision:
		return fmt.Sprintf("%sE%+d", digits, e)
	}
	if pad := -e + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	point := len(digits) + e
	return digits[:point] + "." + digits[point:]
}

// ParseDecimal128 parses a number in the form of JSON (RFC 8259 §6) exactly. ok is false if s is
// not a number, or needs more than 34 digits or an exponent out of range. Final zeros count as
// digits, but are dropped if there are too many digits.
func ParseDecimal128(s string) (d Decimal128, ok bool) {
	digits, e, negative, ok := splitNumber(s)
	if !ok {
		return d, false
	}
	for len(digits) > form128.precision && digits[len(digits)-1] == '0' {
		digits, e = digits[:len(digits)-1], e+1
	}
	if len(digits) > form128.precision || e < -form128.bias {
		return d, false
	}
	for most := 1<<14 - 1<<12 - 1 - form128.bias; e > most; e-- { // IEEE 754-2008 §3.5.2: an exponent cannot begin with the bits 11
		if len(digits) == form128.precision {
			return d, false
		}
		digits += "0"
	}
	bits, _ := new(big.Int).SetString(digits, 10)
	bits.Or(bits, new(big.Int).Lsh(big.NewInt(int64(e+form128.bias)), 128-1-14))
	if negative {
		bits.SetBit(bits, 127, 1)
	}
	bits.FillBytes(d[:])
	return d, true
}

func splitNumber(s string) (digits string, e int, negative, ok bool) {
	s, negative = strings.CutPrefix(s, "-")
	mantissa := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil || n > 1<<20 || n < -1<<20 {
			return "", 0, false, false
		}
		mantissa, e = s[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return "", 0, false, false
	}
	return cmp.Or(digits, "0"), e - len(fraction), negative, true
}

// Int converts any integer type. ok is false for other types, and for numbers of more than 63 bits.
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

// Float converts any floating-point or integer type. ok is false for other types, and for integers
// that a double may not represent exactly.
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
