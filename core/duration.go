package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxTimeSpan is the SDKs' largest TimeSpan, which stands for Forever.
const maxTimeSpan = "P10675199DT2H48M5.4775807S"

// day is 24 hours: durations ignore changes of the clock.
const day = 24 * time.Hour

// durationUnits are the designators of an ISO 8601 duration in order. A year is 365 days and a
// month 30, as in .NET.
var durationUnits = [...]struct {
	designator byte
	afterT     bool
	unit       time.Duration
}{
	{'Y', false, 365 * day},
	{'M', false, 30 * day},
	{'W', false, 7 * day},
	{'D', false, day},
	{'H', true, time.Hour},
	{'M', true, time.Minute},
	{'S', true, time.Second},
}

// ParseDuration reads an ISO 8601 duration such as PT1M, P14D or PT60M0S. Only
// the seconds may have a fraction. Durations beyond time.Duration are Forever.
func ParseDuration(s string) (time.Duration, error) {
	rest, ok := strings.CutPrefix(s, "P")
	if !ok {
		return 0, fmt.Errorf("it must begin with P")
	}
	var total float64 // only guards against overflow
	var sum time.Duration
	unit, parts, afterT := 0, 0, false
	for rest != "" {
		if rest[0] == 'T' && !afterT {
			afterT, rest, parts = true, rest[1:], 0
			continue
		}
		n := 0
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.') {
			n++
		}
		if n == 0 || n == len(rest) {
			return 0, fmt.Errorf("a number and its designator are expected at %.10q", rest)
		}
		digits, designator := rest[:n], rest[n]
		rest = rest[n+1:]
		for unit < len(durationUnits) && (durationUnits[unit].designator != designator || durationUnits[unit].afterT != afterT) {
			unit++
		}
		if unit == len(durationUnits) {
			return 0, fmt.Errorf("designator %q is unknown or out of order", designator)
		}
		size := durationUnits[unit].unit
		unit++
		whole, fraction, hasFraction := strings.Cut(digits, ".")
		if hasFraction && (designator != 'S' || fraction == "" || strings.Contains(fraction, ".")) {
			return 0, fmt.Errorf("%q is not a number that %c allows", digits, designator)
		}
		v, err := strconv.ParseInt(whole, 10, 64)
		if whole == "" {
			return 0, fmt.Errorf("%q is not a number", digits)
		}
		if err != nil {
			v = math.MaxInt64
		}
		total += float64(v) * float64(size)
		sum += time.Duration(v)*size + nanoseconds(fraction)
		parts++
	}
	if parts == 0 {
		return 0, fmt.Errorf("it has no value after %q", s)
	}
	if total >= math.MaxInt64 || sum < 0 {
		return Forever, nil
	}
	return sum, nil
}

// nanoseconds reads the digits after the point of a number of seconds.
func nanoseconds(fraction string) time.Duration {
	const places = 9
	if len(fraction) > places {
		fraction = fraction[:places]
	}
	n := time.Duration(0)
	for i := range places {
		n *= 10
		if i < len(fraction) {
			n += time.Duration(fraction[i] - '0')
		}
	}
	return n
}

// FormatDuration writes d as .NET does: days, hours, minutes and seconds, without zeros.
func FormatDuration(d time.Duration) string {
	if d >= Forever {
		return maxTimeSpan
	}
	if d <= 0 {
		return "PT0S"
	}
	b := make([]byte, 0, len(maxTimeSpan))
	b = append(b, 'P')
	if d >= day {
		b = append(strconv.AppendInt(b, int64(d/day), 10), 'D')
	}
	if d %= day; d == 0 {
		return string(b)
	}
	b = append(b, 'T')
	if d >= time.Hour {
		b = append(strconv.AppendInt(b, int64(d/time.Hour), 10), 'H')
	}
	if d %= time.Hour; d >= time.Minute {
		b = append(strconv.AppendInt(b, int64(d/time.Minute), 10), 'M')
	}
	if d %= time.Minute; d > 0 {
		b = append(strconv.AppendFloat(b, d.Seconds(), 'f', -1, 64), 'S')
	}
	return string(b)
}

// DurationOfTicks is a count of .NET's ticks of 100 ns, at most Forever.
func DurationOfTicks(ticks int64) time.Duration {
	const tick = 100 * time.Nanosecond
	if ticks > int64(Forever/tick) {
		return Forever
	}
	return time.Duration(max(ticks, -int64(Forever/tick))) * tick
}
