// Package memory determines how much memory the gateway may use and how much it uses, sets the
// level at which the gateway refuses work, and returns unused memory to the system.
package memory

import (
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

const unknown = 4 << 30

// fromEnvironment is the limit that GOMEMLIMIT sets. The gateway may later set a lower one.
var fromEnvironment = debug.SetMemoryLimit(-1)

// Available returns how many bytes the process may use: the minimum of setting (0 means none),
// GOMEMLIMIT, the limits of its control groups, and the machine's memory. limited is true only for
// the setting and for control groups: Go's runtime obeys GOMEMLIMIT itself.
func Available(setting int64) (bytes int64, limited bool) {
	machine := machineMemory(os.ReadFile)
	bytes = machine
	for _, n := range []int64{setting, groupsOf(os.ReadFile).limit} {
		if n > 0 && n < bytes {
			bytes, limited = n, true
		}
	}
	if fromEnvironment <= bytes {
		return fromEnvironment, false
	}
	return bytes, limited
}

func IsLimited(setting int64) bool {
	_, limited := Available(setting)
	return limited || fromEnvironment < math.MaxInt64
}

// InUse returns the bytes that the runtime has taken from the system and not returned.
func InUse() int64 { return readHeap().taken }

type read func(name string) ([]byte, error)

func machineMemory(file read) int64 {
	if kb := field(file, "/proc/meminfo", "MemTotal:"); kb > 0 { // only on Linux
		return kb << 10
	}
	return unknown
}

func field(file read, name, word string) int64 {
	text, _ := file(name)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != word {
			continue
		}
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		return n
	}
	return 0
}

type groups struct {
	limit int64  // the lowest limit of all groups; 0 for none
	stat  string // file with the memory usage of the innermost group; "" for none
}

func groupsOf(file read) (g groups) {
	text, _ := file("/proc/self/cgroup") // only on Linux
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		root, names := "/sys/fs/cgroup", []string{"memory.max", "memory.high"}
		switch controllers {
		case "":
		case "memory":
			root, names = "/sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}
		default:
			continue
		}
		for at := path.Clean("/" + group); ; at = path.Dir(at) { // in a container, the path of the group itself may be missing
			dir := root + at
			for _, name := range names {
				limit, err := file(path.Join(dir, name))
				if g.stat == "" && err == nil {
					g.stat = path.Join(dir, "memory.stat")
				}
				if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && n > 0 && (g.limit == 0 || n < g.limit) {
					g.limit = n
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return g
}

// beside returns the bytes of the group that the process does not count: those of other processes,
// of sockets and of the kernel. It excludes cached files, which the kernel can drop.
func (g groups) beside(file read) int64 {
	if g.stat == "" {
		return 0
	}
	anonymous := max(field(file, g.stat, "anon"), field(file, g.stat, "rss")) // version 2, version 1
	n := anonymous - field(file, "/proc/self/status", "RssAnon:")<<10
	for _, of := range []string{"sock", "kernel_stack", "slab_unreclaimable"} {
		n += field(file, g.stat, of)
	}
	return max(n, 0)
}

// Parse parses a size in the format of GOMEMLIMIT: a number of bytes, KiB, MiB or GiB.
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
		return 0, fmt.Errorf("%q is not a size: write a number of bytes, or a size such as 512MiB or 2GiB", s)
	case n <= 0:
		return 0, fmt.Errorf("%s is not above 0: write a size such as 512MiB or 2GiB", s)
	case n > math.MaxInt64/unit:
		return 0, fmt.Errorf("%s is too large: write a size such as 512MiB or 2GiB", s)
	}
	return n * unit, nil
}
