package core

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// maxTimeSpan is the SDKs' largest TimeSpan. It stands for Forever.
const maxTimeSpan = "P10675199DT2H48M5.4775807S"

// As in .NET, a year has 365 days and a month 30.
var durationUnits = [...]struct {
	designator byte
	afterT     bool
	ticks      uint64
}{
	{'Y', false, 365 * value.TicksPerDay},
	{'M', false, 30 * value.TicksPerDay},
	{'W', false, 7 * value.TicksPerDay},
	{'D', false, value.TicksPerDay},
	{'H', true, value.TicksPerHour},
	{'M', true, value.TicksPerMinute},
	{'S', true, value.TicksPerSecond},
}

// ParseAnyDuration parses a duration in Go's notation, such as 90s, or in that of ISO 8601.
func ParseAnyDuration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	return ParseDuration(s)
}

// ParseDuration parses an ISO 8601 duration such as PT1M, P14D or PT60M0S, in steps of 100 ns. Only
// the seconds may have a fraction. A duration too long for time.Duration becomes Forever.
func ParseDuration(s string) (time.Duration, error) {
	ticks, err := ParseTicks(s)
	if err == nil && s[0] == '-' {
		err = fmt.Errorf("%.40q is negative: write a duration such as PT5M", s)
	}
	if err != nil {
		return 0, err
	}
	return DurationOfTicks(ticks), nil
}

// ParseTicks parses an ISO 8601 duration, which may be negative, into .NET's ticks of 100 ns.
// Beyond the longest TimeSpan it returns that TimeSpan.
func ParseTicks(s string) (int64, error) {
	rest, negative := strings.CutPrefix(s, "-")
	rest, ok := strings.CutPrefix(rest, "P")
	if !ok {
		return 0, fmt.Errorf("%.40q does not begin with P: write an ISO 8601 duration such as PT5M", s)
	}
	const most = 1 << 63
	sum := uint64(0)
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
			return 0, fmt.Errorf("expected a number and a unit such as D, H, M or S at %.10q", rest)
		}
		digits, designator := rest[:n], rest[n]
		rest = rest[n+1:]
		for unit < len(durationUnits) && (durationUnits[unit].designator != designator || durationUnits[unit].afterT != afterT) {
			unit++
		}
		if unit == len(durationUnits) {
			return 0, fmt.Errorf("the unit %q is unknown or in the wrong order: write units as in P1Y2M3W4DT5H6M7S", designator)
		}
		size := durationUnits[unit].ticks
		unit++
		whole, fraction, hasFraction := strings.Cut(digits, ".")
		if hasFraction && (designator != 'S' || fraction == "" || strings.Contains(fraction, ".")) {
			return 0, fmt.Errorf("%q is not a valid number for the unit %c: use a whole number, or for S a decimal number", digits, designator)
		}
		if whole == "" {
			return 0, fmt.Errorf("%q has no digit before the point: write 0%s", digits, digits)
		}
		v, err := strconv.ParseUint(whole, 10, 64)
		high, low := bits.Mul64(v, size)
		if err != nil || high > 0 {
			low = most
		}
		sum += min(low, most-sum)
		sum += min(ticksOf(fraction), most-sum)
		parts++
	}
	switch {
	case parts == 0:
		return 0, fmt.Errorf("the duration %q has no number", s)
	case negative:
		return -int64(sum), nil // also correct for sum == most: -int64(1<<63) equals itself
	}
	return int64(min(sum, most-1)), nil
}

func ticksOf(fraction string) (n uint64) {
	const places = 7
	for i := range places {
		n *= 10
		if i < len(fraction) {
			n += uint64(fraction[i] - '0')
		}
	}
	return n
}

// FormatDuration writes d as .NET does: in days, hours, minutes and seconds, without zeros.
func FormatDuration(d time.Duration) string {
	if d >= Forever {
		return maxTimeSpan
	}
	return FormatTicks(int64(max(d, 0) / tick))
}

// FormatTicks is FormatDuration for ticks of .NET.
func FormatTicks(ticks int64) string {
	n, b := uint64(ticks), make([]byte, 0, len(maxTimeSpan)+1)
	switch {
	case ticks == 0:
		return "PT0S"
	case ticks < 0:
		n, b = -n, append(b, '-')
	}
	b = append(b, 'P')
	if n >= value.TicksPerDay {
		b = append(strconv.AppendUint(b, n/value.TicksPerDay, 10), 'D')
	}
	if n %= value.TicksPerDay; n == 0 {
		return string(b)
	}
	b = append(b, 'T')
	if n >= value.TicksPerHour {
		b = append(strconv.AppendUint(b, n/value.TicksPerHour, 10), 'H')
	}
	if n %= value.TicksPerHour; n >= value.TicksPerMinute {
		b = append(strconv.AppendUint(b, n/value.TicksPerMinute, 10), 'M')
	}
	if n %= value.TicksPerMinute; n > 0 {
		b = append(strconv.AppendFloat(b, float64(n)/value.TicksPerSecond, 'f', -1, 64), 'S')
	}
	return string(b)
}

const tick = 100 * time.Nanosecond

// DurationOfTicks converts .NET's ticks of 100 ns. The longest result is Forever.
func DurationOfTicks(ticks int64) time.Duration {
	if ticks >= int64(Forever/tick) {
		return Forever
	}
	return time.Duration(max(ticks, -int64(Forever/tick))) * tick
}
