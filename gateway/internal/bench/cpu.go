package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc: USER_HZ is 100 on every Linux that
// offers the file to programs.
const tick = 10 * time.Millisecond

// cpuTime returns the user and system time a process has used, from
// /proc/PID/stat; proc(5) numbers them fields 14 and 15.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return parseStat(string(b))
}

func parseStat(stat string) (time.Duration, error) {
	// The second field is the command in parentheses, and may hold anything.
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	const user, system = 14 - 3, 15 - 3 // what follows the command begins with field 3
	if end < 0 || len(fields) <= system {
		return 0, fmt.Errorf("CPU time: %q is not a process status", stat)
	}
	var ticks int64
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// account remembers what processes had used when a run began.
type account struct {
	processes []Process
	start     []time.Duration
}

// openAccount notes the CPU time of the processes and, where the system tells
// it, of this one.
func openAccount(processes []Process) (*account, error) {
	a := &account{}
	self := Process{Name: "bench", PID: os.Getpid()}
	for _, p := range append([]Process{self}, processes...) {
		used, err := cpuTime(p.PID)
		if err != nil && p == self {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--pid %s=%d: %w", p.Name, p.PID, err)
		}
		a.processes = append(a.processes, p)
		a.start = append(a.start, used)
	}
	return a, nil
}

// close charges what was used since to messages. A process that has ended
// meanwhile is left out.
func (a *account) close(messages int64) []Charge {
	var charges []Charge
	for i, p := range a.processes {
		now, err := cpuTime(p.PID)
		if err != nil {
			continue
		}
		c := Charge{Name: p.Name, PID: p.PID, CPUSeconds: (now - a.start[i]).Seconds()}
		if messages > 0 {
			c.MicrosPerMessage = float64((now - a.start[i]).Microseconds()) / float64(messages)
		}
		charges = append(charges, c)
	}
	return charges
}
