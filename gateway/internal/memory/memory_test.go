package memory

import (
	"io/fs"
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "512MiB": 512 << 20, "2GiB": 2 << 30, "64 KiB": 64 << 10, "0": 0, "-1MiB": 0, "1GB": 0, "": 0, "9223372036854775807KiB": 0} {
		got, err := Parse(text)
		if (err != nil) != (want == 0) || err == nil && got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestTheEnvironmentLimitsOnlyIfItsLimitIsTheLeast(t *testing.T) {
	defer func(was int64) { fromEnvironment = was }(fromEnvironment)
	fromEnvironment = math.MaxInt64
	machine, _ := Available(0) // or the limit of a control group
	for _, c := range []struct {
		environment, setting, want int64
		limited                    bool
	}{
		{math.MaxInt64, machine / 2, machine / 2, true},
		{machine / 4, machine / 2, machine / 4, false},
		{machine / 2, machine / 4, machine / 4, true},
		{machine / 2, 0, machine / 2, false},
	} {
		fromEnvironment = c.environment
		if got, limited := Available(c.setting); got != c.want || limited != c.limited {
			t.Errorf("GOMEMLIMIT %d, setting %d: got %d, %v, want %d, %v", c.environment, c.setting, got, limited, c.want, c.limited)
		}
		if !IsLimited(c.setting) {
			t.Errorf("GOMEMLIMIT %d, setting %d: not limited", c.environment, c.setting)
		}
	}
}

func TestTheLeastLimitOfTheControlGroupsCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":                      {nil, 0},
		"second version":            {map[string]string{"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1000\n", "/sys/fs/cgroup/memory.max": "2000\n"}, 1000},
		"second, in a container":    {map[string]string{"/proc/self/cgroup": "0::/../x\n", "/sys/fs/cgroup/memory.max": "3000\n"}, 3000},
		"second, without a limit":   {map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, 0},
		"memory.high":               {map[string]string{"/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/memory.max": "2000\n", "/sys/fs/cgroup/a/memory.high": "1500\n"}, 1500},
		"first version":             {map[string]string{"/proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/1\n", "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "4000\n"}, 4000},
		"first, under another name": {map[string]string{"/proc/self/cgroup": "4:memory:/docker/1\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n"}, 5000},
	} {
		got := groupsOf(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}).limit
		if got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestMemoryIsGivenBackWhenThereIsMuchAndLittleToDo(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	var now heap
	freed := 0
	c := Collector{least: 90 * mb, runtime: runner{
		heap:     func() heap { return now },
		giveBack: func() { freed++; now.taken = 50 * mb },
	}}
	for i, step := range []struct {
		taken, allocates int64
		want             int
	}{
		{100 * mb, mb, 0},       // not much more than before
		{200 * mb, 200 * mb, 0}, // busy
		{200 * mb, mb, 1},
		{70 * mb, mb, 1},
		{90 * mb, mb, 1},      // the garbage of an idle gateway
		{95 * mb, 20 * mb, 1}, // busy again
		{95 * mb, mb, 2},
	} {
		now.taken = step.taken
		now.allocated += step.allocates
		if c.look(); freed != step.want {
			t.Errorf("step %d: memory was given back %d times, want %d", i, freed, step.want)
		}
	}
}

func TestLargeMessagesAreCollectedWhereTheyAreMuchOfTheMemory(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	live, collected := int64(200*mb), 0
	c := NewCollector()
	c.runtime = runner{heap: func() heap { return heap{live: live} }, collect: func() { collected++ }}
	for i, step := range []struct {
		released int64
		live     int64
		want     int
	}{
		{31 * mb, 10 * mb, 0},
		{mb, 10 * mb, 1},
		{40 * mb, 1000 * mb, 1},
		{220 * mb, 1000 * mb, 2},
		{mb, 10 * mb, 2},
	} {
		live = step.live
		if c.Released(step.released); collected != step.want {
			t.Errorf("step %d: there were %d collections, want %d", i, collected, step.want)
		}
	}
}
