package builtin

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
)

const typeJSON = "application/json"

func encodeJSON(contentType string, v any) (payload []byte, produced string, err error) {
	c := jsonChecker{walk{left: maxDepth}}
	if c.check(v); c.err != nil {
		return nil, "", c.err
	}
	return value.AppendJSON(nil, v), contentType, nil
}

var errKeys = errors.New("a map has two keys of different types that JSON writes as the same string")

// jsonChecker refuses values that could not be decoded again: with too many levels of nesting, or
// with two keys of the same text in a map.
type jsonChecker struct{ walk }

func (c *jsonChecker) check(v any) {
	switch v := v.(type) {
	case value.List:
		c.elements(v, c.check)
	case value.Array:
		c.elements(v.Values, c.check)
	case value.Described:
		c.elements(value.List{v.Value}, c.check)
	case value.Map:
		if !haveDistinctTexts(v) {
			c.fail(errKeys)
		}
		c.entries(v, -1, c.check)
	}
}

func haveDistinctTexts(m value.Map) bool {
	mixed := slices.ContainsFunc(m, func(e value.Entry) bool {
		_, isText := e.Key.(string)
		return !isText
	})
	if !mixed {
		return true // keys of one type are distinct
	}
	texts := make(map[string]struct{}, len(m))
	for i := range m {
		texts[value.Text(m[i].Key)] = struct{}{}
	}
	return len(texts) == len(m)
}

const decimalDigits = 34

// exactNumber returns a number as a long, ulong, double or decimal128: the first of these that
// keeps all its digits. An integer that a ulong cannot hold becomes a decimal128 if it has at most
// 34 digits.
func exactNumber(s string, isInteger bool) (any, bool) {
	if isInteger {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, true
		}
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return n, true
		}
		if d, ok := value.ParseDecimal128(s); ok && len(s) <= decimalDigits {
			return d, true
		}
	}
	if f, ok := exactDouble(s); ok {
		return f, true
	}
	d, ok := value.ParseDecimal128(s)
	return d, ok
}

const mostDigits = 767

// exactDouble returns false unless s may have been written from a double: as the double's shortest
// text, or as its exact decimal expansion, rounded to the number of digits in s.
func exactDouble(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false // out of range
	}
	if len(s) <= 16 && math.Abs(f) > 1e-300 { // at most 15 digits, which every double keeps
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

// significant returns the digits from the first to the last nonzero one, so that s is ±0.digits ×
// 10^exponent. s must be a number that strconv accepts. Zero has no digits.
func significant(s string) (digits string, exponent int) {
	mantissa := strings.TrimPrefix(s, "-")
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		n, err := strconv.Atoi(mantissa[i+1:])
		if err != nil {
			n = math.MaxInt32 // no double has such an exponent
		}
		mantissa, exponent = mantissa[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent += len(digits) - len(fraction)
	return strings.TrimRight(digits, "0"), exponent
}
