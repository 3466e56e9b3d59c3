package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// ParseDuration reads a duration as Go writes it (90s, 1h30m), as ISO 8601 does
// (PT1M30S, P14D), or "forever". Whatever is too long for a time.Duration, such as
// .NET's largest TimeSpan, is core.Forever.
func ParseDuration(s string) (time.Duration, error) {
	if strings.EqualFold(s, "forever") {
		return core.Forever, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	parts := isoDuration.FindStringSubmatch(s)
	if parts == nil || strings.HasSuffix(s, "P") || strings.HasSuffix(s, "T") {
		return 0, errors.New(`it is not a duration: write it like 90s, 5m, 1h30m, PT5M, P14D or forever`)
	}
	var seconds float64
	for i, unit := range []float64{86400, 3600, 60, 1} {
		if parts[i+1] != "" {
			n, err := strconv.ParseFloat(parts[i+1], 64)
			if err != nil {
				return core.Forever, nil // out of range
			}
			seconds += n * unit
		}
	}
	if seconds >= core.Forever.Seconds() {
		return core.Forever, nil
	}
	return time.Duration(math.Round(seconds * float64(time.Second))), nil
}
