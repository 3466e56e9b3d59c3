package rules

import (
	"fmt"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// parseTimeSpan reads a duration in the form of ISO 8601 (PT5M) or of .NET (00:05:00) and returns ticks.
func parseTimeSpan(s string) (int64, error) {
	if strings.HasPrefix(s, "P") {
		ticks, err := core.ParseTicks(s)
		if err != nil {
			return 0, fmt.Errorf("%.40q is no duration: %w", s, err)
		}
		return ticks, nil
	}
	ticks, err := value.ParseTimeSpan(s)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no duration such as PT5M or 00:05:00", s)
	}
	return ticks, nil
}
