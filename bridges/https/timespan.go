package https

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const day = 24 * time.Hour

// parseTimeSpan reads .NET's [d.]hh:mm:ss[.fffffff].
func parseTimeSpan(s string) (time.Duration, error) {
	days, clock := int64(0), s
	var err error
	if d, rest, ok := strings.Cut(s, "."); ok && strings.Contains(rest, ":") {
		if days, err = parseDigits(d, math.MaxInt32); err != nil {
			return 0, err
		}
		clock = rest
	}
	parts := strings.Split(clock, ":")
	if len(parts) != 3 {
		return 0, fmt.Errorf("%.40q is not of the form [d.]hh:mm:ss[.fffffff]", s)
	}
	whole, fraction, _ := strings.Cut(parts[2], ".")
	if _, err := parseDigits("0"+fraction, math.MaxInt64); err != nil {
		return 0, err
	}
	var n [3]int64
	for i, limit := range [3]int64{23, 59, 59} {
		text := parts[i]
		if i == 2 {
			text = whole
		}
		if n[i], err = parseDigits(text, limit); err != nil {
			return 0, err
		}
	}
	if days >= int64(core.Forever/day) {
		return core.Forever, nil
	}
	part, err := time.ParseDuration("0." + fraction + "s")
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a fraction of a second", fraction)
	}
	return time.Duration(days)*day + time.Duration(n[0])*time.Hour + time.Duration(n[1])*time.Minute +
		time.Duration(n[2])*time.Second + part, nil
}

func parseDigits(s string, limit int64) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || int64(n) > limit {
		return 0, fmt.Errorf("%.40q is not a number up to %d", s, limit)
	}
	return int64(n), nil
}
