//go:build !linux

package bench

import (
	"errors"
	"time"
)

func cpuClock(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
