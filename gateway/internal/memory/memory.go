// Package memory finds out how much memory the gateway may use, and gives what
// it no longer uses back to the system.
package memory

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// unknown stands for the memory of a machine that does not tell it.
const unknown = 4 << 30

// Available returns how many bytes the process may use: GOMEMLIMIT, or else what
// the control group allows, or else what the machine has. limited says that it
// is the control group's word.
func Available() (bytes int64, limited bool) {
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		return n, false
	}
	machine := machineMemory(os.ReadFile)
	if n := groupLimit(os.ReadFile); n > 0 && n < machine {
		return n, true
	}
	return machine, false
}

// InUse is how many bytes the runtime has from the system and has not given back.
func InUse() int64 { return int64(readUsage().taken) }

type read func(name string) ([]byte, error)

// machineMemory is the memory of the machine.
func machineMemory(file read) int64 {
	text, _ := file("/proc/meminfo") // only Linux has it
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		if kb, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kb > 0 {
			return kb << 10
		}
	}
	return unknown
}

// groupLimit is the least limit of the control groups that the process is in; 0: there is none.
func groupLimit(file read) (least int64) {
	text, _ := file("/proc/self/cgroup") // only Linux has it
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		root, name := "/sys/fs/cgroup", "memory.max"
		switch controllers {
		case "":
		case "memory":
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for at := path.Clean("/" + group); ; at = path.Dir(at) { // in a container the group's own path may not be there
			limit, _ := file(root + path.Join(at, "/"+name))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && n > 0 && (least == 0 || n < least) {
				least = n
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// Parse reads a size as GOMEMLIMIT has it: a number of bytes, or of KiB, MiB or GiB.
func Parse(s string) (int64, error) {
	text, unit := s, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			text, unit = rest, int64(1)<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case err != nil:
		return 0, errors.New("it is not a size: write it like 512MiB or 2GiB")
	case n <= 0 || n > math.MaxInt64/unit:
		return 0, fmt.Errorf("%s is out of range: write it like 512MiB or 2GiB", s)
	}
	return n * unit, nil
}
