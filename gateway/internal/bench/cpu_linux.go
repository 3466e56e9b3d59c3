package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock returns the CPU time of a process. The ticks of /proc, of 10 ms, are too coarse for a
// thousand messages.
func cpuClock(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED, as in clock_getcpuclockid(3)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("cannot read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
