package https

import (
	"fmt"
	"math/big"
	"strings"
)

// decimalForms are the parameters of the IEEE 754-2008 decimal interchange
// formats by their length in bytes: bits of the exponent, its bias, and digits.
var decimalForms = map[int]struct {
	exponentBits uint
	bias         int
	precision    int64
}{
	4:  {8, 101, 7},
	8:  {10, 398, 16},
	16: {14, 6176, 34},
}

// formatDecimal writes a decimal in binary integer encoding, which AMQP 1.0
// §1.6.13–15 asks for, with all its digits: 12.50, -3, 1E+40.
func formatDecimal(b []byte) string {
	form, ok := decimalForms[len(b)]
	if !ok {
		return fmt.Sprintf("%x", b)
	}
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
	if coefficient.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(form.precision), nil)) >= 0 {
		coefficient.SetInt64(0) // not canonical: IEEE 754-2008 §3.5.2 reads it as zero
	}
	digits := coefficient.String()
	e := int(exponent.Int64()) - form.bias
	switch {
	case e == 0:
		return sign + digits
	case e > 0 || -e > 2*int(form.precision):
		return fmt.Sprintf("%s%sE%+d", sign, digits, e)
	}
	if pad := -e + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	point := len(digits) + e
	return sign + digits[:point] + "." + digits[point:]
}
