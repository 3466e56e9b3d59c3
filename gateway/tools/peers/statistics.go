package main

import (
	"math"
	"slices"
	"strconv"
)

// confidence is what an interval aims at.
const confidence = 0.95

// estimate is a median and an interval that holds the median of all possible runs.
type estimate struct {
	median, low, high float64
	n                 int
}

// estimateOf summarizes independent measurements of any distribution. The bounds of the interval
// are order statistics: the narrowest that have the confidence or, with fewer than six
// measurements, the lowest and the highest.
func estimateOf(values []float64) estimate {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return estimate{median: math.NaN(), low: math.NaN(), high: math.NaN()}
	}
	median := v[n/2]
	if n%2 == 0 {
		median = (v[n/2-1] + v[n/2]) / 2
	}
	k, _ := cutOff(n)
	return estimate{median, v[k], v[n-1-k], n}
}

// cutOff returns how many measurements an interval omits at each end, and its confidence: the
// probability that n throws of a coin show more than k and fewer than n-k heads.
func cutOff(n int) (k int, has float64) {
	outside, term := 0.0, math.Pow(0.5, float64(n)) // the chance of fewer than k heads, and of k
	for k = 0; ; k++ {
		outside += term
		term *= float64(n-k) / float64(k+1)
		if 1-2*(outside+term) < confidence {
			return k, max(0, 1-2*outside)
		}
	}
}

// ratios divides the measurements of the same rounds.
func ratios(of, to []*float64) []float64 {
	var all []float64
	for i := range min(len(of), len(to)) {
		if of[i] != nil && to[i] != nil && *to[i] != 0 {
			all = append(all, *of[i] / *to[i])
		}
	}
	return all
}

// figure writes a number with three significant digits, and thousands apart.
func figure(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	if x == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if digits > 0 {
		return s
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-2)
	s = strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
