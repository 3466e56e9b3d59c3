package rules

import (
	"math"
	"math/big"
	"strconv"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Decimals are computed with as doubles. They are read in the binary integer
// encoding of IEEE 754-2008 §3.5.2, which is .NET's on the wire.

func decimal32(d value.Decimal32) datum { return decimal(d[:], 8, 101) }

func decimal64(d value.Decimal64) datum { return decimal(d[:], 10, 398) }

func decimal128(d value.Decimal128) datum { return decimal(d[:], 14, 6176) }

// decimal reads a sign bit, an exponent of the given width that is biased, and
// a coefficient; or, where the exponent would begin with 11, a form that needs
// larger coefficients than its precision has, which is zero, or no number.
func decimal(b []byte, exponentBits uint, bias int) datum {
	bits := new(big.Int).SetBytes(b)
	total := uint(len(b)) * 8
	negative := bits.Bit(int(total-1)) == 1
	bits.SetBit(bits, int(total-1), 0)
	coefficientBits := total - 1 - exponentBits
	top := new(big.Int).Rsh(bits, total-6).Uint64() // the five bits behind the sign
	switch {
	case top == 0b11110:
		return realOf(math.Inf(sign(negative)))
	case top == 0b11111:
		return realOf(math.NaN())
	case top>>3 == 0b11:
		return largeCoefficient(bits, negative, coefficientBits, exponentBits, bias)
	}
	exponent := new(big.Int).Rsh(bits, coefficientBits).Int64()
	coefficient := bits.And(bits, ones(coefficientBits))
	return scaled(negative, coefficient, int(exponent)-bias)
}

// largeCoefficient reads the form in which two bits 11 precede the exponent
// and the coefficient begins with an implied 100.
func largeCoefficient(bits *big.Int, negative bool, coefficientBits, exponentBits uint, bias int) datum {
	short := coefficientBits - 2
	exponent := new(big.Int).Rsh(bits, short)
	exponent.And(exponent, ones(exponentBits))
	coefficient := bits.And(bits, ones(short))
	coefficient.SetBit(coefficient, int(coefficientBits), 1)
	return scaled(negative, coefficient, int(exponent.Int64())-bias)
}

func ones(n uint) *big.Int {
	one := big.NewInt(1)
	return new(big.Int).Sub(new(big.Int).Lsh(one, n), one)
}

// scaled is the double nearest to ± coefficient × 10^exponent, infinite beyond
// the range of doubles.
func scaled(negative bool, coefficient *big.Int, exponent int) datum {
	s := coefficient.String() + "e" + strconv.Itoa(exponent)
	f, _ := strconv.ParseFloat(s, 64) // the error says what the infinity says
	return realOf(math.Copysign(f, float64(sign(negative))))
}

func sign(negative bool) int {
	if negative {
		return -1
	}
	return 1
}
