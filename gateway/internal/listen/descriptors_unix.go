//go:build unix

package listen

import (
	"math"
	"syscall"
)

func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultDescriptors
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // Cur is signed on some systems
}
