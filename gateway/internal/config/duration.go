package config

import (
	"errors"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// ParseDuration reads a duration as Go writes it (90s, 1h30m), as ISO 8601 does
// (PT1M30S, P14D), in whole days (14d), or "forever". Whatever is too long for a time.Duration, such as
// .NET's largest TimeSpan, is core.Forever.
func ParseDuration(s string) (time.Duration, error) {
	if strings.EqualFold(s, "forever") {
		return core.Forever, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	if d, err := core.ParseDuration(s); err == nil {
		return d, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok && isNumber(days) {
		return core.ParseDuration("P" + days + "D")
	}
	return 0, errors.New(`it is not a duration: write it like 90s, 5m, 1h30m, 14d, PT5M, P14D or forever`)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
