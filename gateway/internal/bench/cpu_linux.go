package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock reads the CPU-time clock of a process, in nanoseconds: the times in
// /proc count in ticks of 10 ms, too coarse for a thousand messages.
func cpuClock(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED, as clock_getcpuclockid(3) makes it
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
