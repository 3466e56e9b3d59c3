package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc. USER_HZ is 100 on every Linux that programs see.
const tick = 10 * time.Millisecond

type usage struct {
	cpu      time.Duration // user and system time of the process and its ended children
	resident int64         // bytes of memory
}

func measure(pid int) (usage, error) {
	var u usage
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("cannot read the CPU time of process %d: %w", pid, err)
	}
	children, pages, err := parseStat(string(b))
	if err != nil {
		return u, err
	}
	own, err := cpuClock(pid)
	if err != nil {
		return u, err
	}
	return usage{own + children, pages * int64(os.Getpagesize())}, nil
}

// parseStat reads the fields 16, 17 and 24 of /proc/PID/stat, see proc(5).
func parseStat(stat string) (children time.Duration, resident int64, err error) {
	// The second field is the command in parentheses, which may contain anything.
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	const user, system, pages = 16 - 3, 17 - 3, 24 - 3 // the fields after the command begin with number 3
	if end < 0 || len(fields) <= pages {
		return 0, 0, fmt.Errorf("cannot read the CPU time from the process status %q", stat)
	}
	var n [3]int64
	for i, f := range []int{user, system, pages} {
		if n[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("cannot read the CPU time of the process: %w", err)
		}
	}
	return time.Duration(n[0]+n[1]) * tick, n[2], nil
}

type account struct {
	processes []Process
	idle      []usage
	start     []usage
	lap       []usage
}

// openAccount measures the processes and, if the system allows it, this process.
func openAccount(processes []Process) (*account, error) {
	a := &account{}
	self := Process{Name: "bench", PID: os.Getpid()}
	for _, p := range append([]Process{self}, processes...) {
		used, err := measure(p.PID)
		if err != nil && p == self {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--pid %s=%d: %w", p.Name, p.PID, err)
		}
		a.processes = append(a.processes, p)
		a.idle = append(a.idle, used)
	}
	return a, nil
}

func (a *account) begin() {
	a.start = a.now()
	a.lap = a.start
}

func (a *account) phase(messages int64) []Charge {
	from := a.lap
	a.lap = a.now()
	return a.charges(from, a.lap, messages)
}

func (a *account) total(messages int64) []Charge {
	return a.charges(a.start, a.now(), messages)
}

// now returns the usage of each process, which is zero if the process has ended.
func (a *account) now() []usage {
	all := make([]usage, len(a.processes))
	for i, p := range a.processes {
		all[i], _ = measure(p.PID)
	}
	return all
}

// charges returns the CPU time of each process that both measurements, from and to, have seen.
func (a *account) charges(from, to []usage, messages int64) []Charge {
	var charges []Charge
	for i, p := range a.processes {
		used := to[i].cpu - from[i].cpu
		if to[i].cpu == 0 || from[i].cpu == 0 {
			continue
		}
		c := Charge{
			Name: p.Name, PID: p.PID, CPUSeconds: used.Seconds(),
			ResidentBytes: to[i].resident, GrownBytes: to[i].resident - a.idle[i].resident,
		}
		if messages > 0 {
			c.MicrosPerMessage = float64(used.Nanoseconds()) / 1e3 / float64(messages)
		}
		charges = append(charges, c)
	}
	return charges
}
