package value

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// decimalForm are the parameters of an IEEE 754-2008 decimal interchange format.
type decimalForm struct {
	exponentBits uint
	bias         int
	precision    int // digits
}

// String writes the decimal with all its digits: 12.50, -3, 1E+40.
func (d Decimal32) String() string { return formatDecimal(d[:], decimalForm{8, 101, 7}) }

// String writes the decimal with all its digits: 12.50, -3, 1E+40.
func (d Decimal64) String() string { return formatDecimal(d[:], decimalForm{10, 398, 16}) }

// String writes the decimal with all its digits: 12.50, -3, 1E+40.
func (d Decimal128) String() string { return formatDecimal(d[:], form128) }

var form128 = decimalForm{14, 6176, 34}

// formatDecimal reads the binary integer encoding, which AMQP 1.0 §1.6.13–15 asks for.
func formatDecimal(b []byte, form decimalForm) string {
	bits := new(big.Int).SetBytes(b)
	field := func(low, width uint) *big.Int {
		mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), width), big.NewInt(1))
		return mask.And(mask, new(big.Int).Rsh(bits, low))
	}
	total := uint(len(b)) * 8
	sign := ""
	if bits.Bit(int(total-1)) == 1 {
		sign = "-"
	}
	coefficientBits := total - 1 - form.exponentBits
	exponent, coefficient := field(coefficientBits, form.exponentBits), field(0, coefficientBits)
	if field(total-3, 2).Int64() == 3 { // the two bits behind the sign: a large coefficient, or no number
		if field(total-5, 4).Int64() == 15 {
			if bits.Bit(int(total-6)) == 1 {
				return "NaN"
			}
			return sign + "Infinity"
		}
		exponent, coefficient = field(coefficientBits-2, form.exponentBits), field(0, coefficientBits-2)
		coefficient.SetBit(coefficient, int(coefficientBits), 1)
	}
	if coefficient.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(form.precision)), nil)) >= 0 {
		coefficient.SetInt64(0) // not canonical: IEEE 754-2008 §3.5.2 reads it as zero
	}
	return sign + placePoint(coefficient.String(), int(exponent.Int64())-form.bias, form.precision)
}

// placePoint writes digits × 10^e.
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

// ParseDecimal128 reads a number as JSON writes it (RFC 8259 §6) exactly:
// ok is false if s is none, or needs more than 34 digits or an exponent out of
// range. Zeros at the end count as digits, unless the number is too long with them.
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
	for most := 1<<14 - 1<<12 - 1 - form128.bias; e > most; e-- { // IEEE 754-2008 §3.5.2: an exponent's first bits are not 11
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

// splitNumber takes a number apart into digits × 10^e.
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
	if digits == "" {
		digits = "0"
	}
	return digits, e - len(fraction), negative, true
}
