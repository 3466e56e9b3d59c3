package builtin

import (
	"math"
	"strconv"
	"strings"
)

// mostDigits is how many digits the expansion of a double has at most.
const mostDigits = 767

// exactDouble reads a decimal number whose digits are all those of a double:
// the double's shortest text, or its exact expansion rounded to as many digits.
func exactDouble(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false // out of range
	}
	if len(s) <= 16 && math.Abs(f) > 1e-300 { // up to 15 digits, which every double keeps
		return f, true
	}
	digits, exponent := significant(s)
	if digits == "" {
		return f, true
	}
	if d, e := significant(strconv.FormatFloat(f, 'e', -1, 64)); d == digits && e == exponent {
		return f, true
	}
	if len(digits) <= 17 || len(digits) > mostDigits {
		return 0, false
	}
	d, e := significant(strconv.FormatFloat(f, 'e', len(digits)-1, 64))
	return f, d == digits && e == exponent
}

// significant takes a number that strconv has read apart into its digits,
// without zeros at either end, and the power of ten of the first one. Zero has
// no digits.
func significant(s string) (digits string, exponent int) {
	mantissa := strings.TrimPrefix(s, "-")
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		n, err := strconv.Atoi(mantissa[i+1:])
		if err != nil {
			n = math.MaxInt32 // no double has it
		}
		mantissa, exponent = mantissa[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent += len(digits) - len(fraction)
	return strings.TrimRight(digits, "0"), exponent
}
