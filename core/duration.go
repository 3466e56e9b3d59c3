package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// maxTimeSpan is the SDKs' largest TimeSpan, which stands for Forever.
const maxTimeSpan = "P10675199DT2H48M5.4775807S"

// day is 24 hours: durations ignore changes of the clock.
const day = 24 * time.Hour

// durationUnits are the designators of an ISO 8601 duration in order, in seconds. A year is 365
// days and a month 30, as in .NET.
var durationUnits = [...]struct {
	designator byte
	afterT     bool
	seconds    uint64
}{
	{'Y', false, 365 * daySeconds},
	{'M', false, 30 * daySeconds},
	{'W', false, 7 * daySeconds},
	{'D', false, daySeconds},
	{'H', true, 3600},
	{'M', true, 60},
	{'S', true, 1},
}

const daySeconds = uint64(day / time.Second)

// endlessSeconds are more than a duration or a count of ticks can have.
const endlessSeconds = 1 << 60

// ParseDuration reads an ISO 8601 duration such as PT1M, P14D or PT60M0S. Only
// the seconds may have a fraction. Durations beyond time.Duration are Forever.
func ParseDuration(s string) (time.Duration, error) {
	seconds, nanos, err := parseISO(s)
	switch most := uint64(Forever / time.Second); {
	case err != nil:
		return 0, err
	case seconds > most, seconds == most && nanos > uint64(Forever%time.Second):
		return Forever, nil
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos), nil
}

// ParseTicks is ParseDuration for .NET's ticks of 100 ns, of which there may be more, and less
// than none. What is longer is as long as can be.
func ParseTicks(s string) (int64, error) {
	s, negative := strings.CutPrefix(s, "-")
	seconds, nanos, err := parseISO(s)
	if err != nil {
		return 0, err
	}
	ticks := uint64(1 << 63)
	if seconds <= ticks/value.TicksPerSecond {
		ticks = min(ticks, seconds*value.TicksPerSecond+nanos/100)
	}
	if negative {
		return -int64(ticks), nil // -1 << 63 is its own opposite
	}
	return int64(min(ticks, math.MaxInt64)), nil
}

// parseISO reads an ISO 8601 duration.
func parseISO(s string) (seconds, nanos uint64, err error) {
	rest, ok := strings.CutPrefix(s, "P")
	if !ok {
		return 0, 0, fmt.Errorf("it must begin with P")
	}
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
			return 0, 0, fmt.Errorf("a number and its designator are expected at %.10q", rest)
		}
		digits, designator := rest[:n], rest[n]
		rest = rest[n+1:]
		for unit < len(durationUnits) && (durationUnits[unit].designator != designator || durationUnits[unit].afterT != afterT) {
			unit++
		}
		if unit == len(durationUnits) {
			return 0, 0, fmt.Errorf("designator %q is unknown or out of order", designator)
		}
		size := durationUnits[unit].seconds
		unit++
		whole, fraction, hasFraction := strings.Cut(digits, ".")
		if hasFraction && (designator != 'S' || fraction == "" || strings.Contains(fraction, ".")) {
			return 0, 0, fmt.Errorf("%q is not a number that %c allows", digits, designator)
		}
		if whole == "" {
			return 0, 0, fmt.Errorf("%q is not a number", digits)
		}
		v, err := strconv.ParseUint(whole, 10, 64)
		if err != nil || v > endlessSeconds/size {
			v = endlessSeconds / size
		}
		seconds = min(seconds+v*size, endlessSeconds)
		nanos = nanoseconds(fraction)
		parts++
	}
	if parts == 0 {
		return 0, 0, fmt.Errorf("it has no value after %q", s)
	}
	return seconds, nanos, nil
}

// nanoseconds reads the digits after the point of a number of seconds.
func nanoseconds(fraction string) uint64 {
	const places = 9
	n := uint64(0)
	for i := range places {
		n *= 10
		if i < len(fraction) {
			n += uint64(fraction[i] - '0')
		}
	}
	return n
}

// FormatDuration writes d as .NET does: days, hours, minutes and seconds, without zeros.
func FormatDuration(d time.Duration) string {
	if d >= Forever {
		return maxTimeSpan
	}
	d = max(d, 0)
	return formatISO(uint64(d/time.Second), uint64(d%time.Second))
}

// FormatTicks is FormatDuration for ticks.
func FormatTicks(ticks int64) string {
	if ticks < 0 {
		n := -uint64(ticks)
		return "-" + formatISO(n/value.TicksPerSecond, n%value.TicksPerSecond*100)
	}
	return formatISO(uint64(ticks)/value.TicksPerSecond, uint64(ticks)%value.TicksPerSecond*100)
}

func formatISO(seconds, nanos uint64) string {
	if seconds == 0 && nanos == 0 {
		return "PT0S"
	}
	b := make([]byte, 0, len(maxTimeSpan)+1)
	b = append(b, 'P')
	if seconds >= daySeconds {
		b = append(strconv.AppendUint(b, seconds/daySeconds, 10), 'D')
	}
	if seconds %= daySeconds; seconds == 0 && nanos == 0 {
		return string(b)
	}
	b = append(b, 'T')
	if seconds >= 3600 {
		b = append(strconv.AppendUint(b, seconds/3600, 10), 'H')
	}
	if seconds %= 3600; seconds >= 60 {
		b = append(strconv.AppendUint(b, seconds/60, 10), 'M')
	}
	if seconds %= 60; seconds > 0 || nanos > 0 {
		b = strconv.AppendUint(b, seconds, 10)
		if nanos > 0 {
			b = append(append(b, '.'), strings.TrimRight(fmt.Sprintf("%09d", nanos), "0")...)
		}
		b = append(b, 'S')
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
