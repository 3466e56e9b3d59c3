package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// Ticks of longer units.
const (
	ticksPerMinute = 60 * ticksPerSecond
	ticksPerHour   = 60 * ticksPerMinute
	ticksPerDay    = 24 * ticksPerHour
)

// parseTimeSpan reads a duration in the form of ISO 8601 (PT5M) or of .NET
// ([-][days.]hours:minutes[:seconds[.fraction]]) and returns ticks.
func parseTimeSpan(s string) (int64, error) {
	if strings.HasPrefix(s, "P") {
		d, err := core.ParseDuration(s)
		if err != nil {
			return 0, fmt.Errorf("%.40q is no duration: %w", s, err)
		}
		return setSpanOf(d).int(), nil
	}
	rest, negative := strings.CutPrefix(s, "-")
	fields := strings.Split(rest, ":")
	if len(fields) != 2 && len(fields) != 3 {
		return 0, fmt.Errorf("%.40q is no duration such as PT5M or 00:05:00", s)
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
	for _, part := range []struct {
		digits      string
		limit, unit int64
	}{
		{days, math.MaxInt64 / ticksPerDay, ticksPerDay},
		{hours, 23, ticksPerHour},
		{fields[1], 59, ticksPerMinute},
		{seconds, 59, ticksPerSecond},
		{fraction + "0000000"[min(7, len(fraction)):], ticksPerSecond - 1, 1},
	} {
		n, err := strconv.ParseUint(part.digits, 10, 64)
		if err != nil || n > uint64(part.limit) || len(fraction) > 7 {
			return 0, fmt.Errorf("%.40q is no duration such as PT5M or 00:05:00", s)
		}
		total += n * uint64(part.unit)
	}
	switch {
	case total > math.MaxInt64:
		return 0, fmt.Errorf("%.40q is longer than the longest duration", s)
	case negative:
		return -int64(total), nil
	default:
		return int64(total), nil
	}
}

// formatTimeSpan writes ticks in the form of .NET.
func formatTimeSpan(ticks int64) string {
	n := magnitude(ticks)
	var b strings.Builder
	if ticks < 0 {
		b.WriteByte('-')
	}
	if days := n / uint64(ticksPerDay); days > 0 {
		fmt.Fprintf(&b, "%d.", days)
	}
	fmt.Fprintf(&b, "%02d:%02d:%02d", n/uint64(ticksPerHour)%24, n/uint64(ticksPerMinute)%60, n/uint64(ticksPerSecond)%60)
	if fraction := n % uint64(ticksPerSecond); fraction > 0 {
		fmt.Fprintf(&b, ".%07d", fraction)
	}
	return b.String()
}
