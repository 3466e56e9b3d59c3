package rules

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
)

// relation is a set of the orders of two values for which a comparison is true.
type relation uint8

const (
	less relation = 1 << iota
	equal
	greater
	lessOrEqual    = less | equal
	greaterOrEqual = greater | equal
	unequal        = less | greater
)

// holds reports whether the relation includes c, a result of cmp.Compare.
func (r relation) holds(c int) bool { return r&(1<<(c+1)) != 0 }

// The truth is Unknown if a or b is, or if they cannot be compared.
func compare(r relation, a, b datum) Truth {
	if a.isUnknown() || b.isUnknown() {
		return Unknown
	}
	if a.kind != b.kind {
		if a.isNumber() && b.isNumber() {
			return compareNumbers(r, a, b)
		}
		return Unknown
	}
	switch a.kind {
	case text:
		if r == equal {
			return truthOf(a.text == b.text)
		}
		return truthOf(r.holds(strings.Compare(a.text, b.text)))
	case integer, instant, span:
		return truthOf(r.holds(cmp.Compare(a.int(), b.int())))
	case huge, real:
		return compareNumbers(r, a, b)
	case boolean, guid, binary:
		if r != equal && r != unequal {
			return Unknown
		}
		same := a.num == b.num && a.text == b.text
		return truthOf(same == (r == equal))
	default:
		return Unknown
	}
}

// compareNumbers compares numbers by their exact values. A NaN is unequal to everything.
func compareNumbers(r relation, a, b datum) Truth {
	switch x, y := a.real(), b.real(); {
	case math.IsNaN(x) || math.IsNaN(y):
		return truthOf(r == unequal)
	case a.kind == real && b.kind == real:
		return truthOf(r.holds(cmp.Compare(x, y)))
	case a.kind == real:
		return truthOf(r.holds(-compareWithReal(b, x)))
	case b.kind == real:
		return truthOf(r.holds(compareWithReal(a, y)))
	case a.kind == b.kind: // both are huge
		return truthOf(r.holds(cmp.Compare(a.num, b.num)))
	default: // one is an integer, one is huge
		return truthOf(r.holds(cmp.Compare(a.kind, b.kind)))
	}
}

// compareWithReal compares n, an integer or huge, with f, which is not NaN. It cuts off f's
// fraction, which is exact, instead of converting n, which would round n.
func compareWithReal(n datum, f float64) int {
	low, high := math.MinInt64*1.0, math.MaxInt64*1.0 // MaxInt64 is rounded to 2^63
	if n.kind == huge {
		low, high = high, math.MaxUint64*1.0 // 2^64
	}
	switch {
	case f < low:
		return 1
	case f >= high:
		return -1
	}
	whole := math.Floor(f)
	var c int
	if n.kind == huge {
		c = cmp.Compare(n.num, uint64(whole))
	} else {
		c = cmp.Compare(n.int(), int64(whole))
	}
	if c == 0 && whole < f {
		return -1
	}
	return c
}

// same reports whether a correlation filter finds two values equal: those of the same family with
// the same value. All numbers are one family, and null equals null.
func same(a, b datum) bool {
	switch {
	case a.kind == integer && b.kind == integer:
		return a.num == b.num
	case a.isNumber() && b.isNumber():
		return compareNumbers(equal, a, b) == True
	case a.kind != b.kind || a.kind == absent:
		return false
	default:
		return a.num == b.num && a.text == b.text
	}
}

// hash returns equal numbers for data that are equal by compare or by same.
func (d datum) hash(seed maphash.Seed) uint64 {
	switch d.kind {
	case text, guid, binary, opaque:
		return maphash.String(seed, d.text)
	case real:
		return hashNumber(seed, canonical(d))
	default:
		return hashNumber(seed, d)
	}
}

// canonical converts a double without a fraction to an integer, if it fits.
func canonical(d datum) datum {
	switch f := d.real(); {
	case f != math.Trunc(f):
		return d
	case f >= -1<<63 && f < 1<<63:
		return integerOf(int64(f))
	case f >= 1<<63 && f < 1<<64:
		return unsignedOf(uint64(f))
	default:
		return d
	}
}

func hashNumber(seed maphash.Seed, d datum) uint64 {
	return combine(maphash.Comparable(seed, d.kind), d.num)
}

func combine(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, x^0xe7037ed1a0b428db)
	return hi ^ lo ^ h<<1
}
