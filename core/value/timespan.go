package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Ticks are .NET's unit of time, 100 ns.
const (
	TicksPerSecond = 10_000_000
	TicksPerMinute = 60 * TicksPerSecond
	TicksPerHour   = 60 * TicksPerMinute
	TicksPerDay    = 24 * TicksPerHour
)

// ParseTimeSpan parses .NET's [-][days.]hours:minutes[:seconds[.fraction]], and returns ticks.
func ParseTimeSpan(s string) (ticks int64, err error) {
	malformed := fmt.Errorf("%.40q is not of the form [d.]hh:mm:ss[.fffffff]", s)
	rest, negative := strings.CutPrefix(s, "-")
	fields := strings.Split(rest, ":")
	if len(fields) != 2 && len(fields) != 3 {
		return 0, malformed
	}
	days, hours, ok := strings.Cut(fields[0], ".")
	if !ok {
		days, hours = "0", fields[0]
	}
	seconds, fraction := "0", ""
	if len(fields) == 3 {
		seconds, fraction, _ = strings.Cut(fields[2], ".")
	}
	total := uint64(0)
	for _, part := range [...]struct {
		digits      string
		limit, unit uint64
	}{
		{days, math.MaxInt64 / TicksPerDay, TicksPerDay},
		{hours, 23, TicksPerHour},
		{fields[1], 59, TicksPerMinute},
		{seconds, 59, TicksPerSecond},
		{fraction + "0000000"[min(7, len(fraction)):], TicksPerSecond - 1, 1},
	} {
		n, err := strconv.ParseUint(part.digits, 10, 64)
		if err != nil || n > part.limit || len(fraction) > 7 {
			return 0, malformed
		}
		total += n * part.unit
	}
	switch {
	case total > math.MaxInt64:
		return 0, fmt.Errorf("%.40q is longer than the longest time span, 10675199.02:48:05.4775807", s)
	case negative:
		return -int64(total), nil
	default:
		return int64(total), nil
	}
}

// FormatTimeSpan returns ticks in the form [-][d.]hh:mm:ss[.fffffff].
func FormatTimeSpan(ticks int64) string {
	sign, n := "", uint64(ticks)
	if ticks < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%02d:%02d:%02d", n/TicksPerHour%24, n/TicksPerMinute%60, n/TicksPerSecond%60)
	if days := n / TicksPerDay; days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	if fraction := n % TicksPerSecond; fraction > 0 {
		s = fmt.Sprintf("%s.%07d", s, fraction)
	}
	return sign + s
}
