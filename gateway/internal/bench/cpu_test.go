package bench

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const tail = " S 1 2 3 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 5 0 100 1000 10 18446744073709551615\n"
	for _, stat := range []string{"12 (redis-server)" + tail, "12 (a) b) c)" + tail} {
		children, pages, err := parseStat(stat)
		if err != nil || children != 150*time.Millisecond || pages != 10 {
			t.Errorf("%q: got %v %d %v, want 150ms and 10 pages", stat, children, pages, err)
		}
	}
	for _, stat := range []string{"", "12 (x) S 1", "12 redis", "12 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 x 15 16 17 18 19 20 21 22"} {
		if children, _, err := parseStat(stat); err == nil {
			t.Errorf("%q: got %v, want an error", stat, children)
		}
	}
}

func TestPhasesAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("processes are measured on Linux only")
	}
	a, err := openAccount([]Process{{"other", os.Getppid()}})
	if err != nil {
		t.Fatal(err)
	}
	a.begin()
	spin := func() {
		from, err := measure(os.Getpid())
		for to := from; err == nil && to.cpu-from.cpu < 2*time.Millisecond; {
			to, err = measure(os.Getpid())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	spin()
	first := a.phase(100)
	spin()
	second := a.phase(0)
	sum := first[0].CPUSeconds + second[0].CPUSeconds
	if got := a.total(1); len(got) != 2 || got[0].Name != "bench" || got[1].Name != "other" || got[0].CPUSeconds < sum || sum < 0.004 {
		t.Errorf("got %+v, want at least the %g s of both phases", got, sum)
	}
	if first[0].MicrosPerMessage < 20 || second[0].MicrosPerMessage != 0 || first[0].ResidentBytes == 0 {
		t.Errorf("got %+v and %+v, want a share for each of 100 messages, and none without messages", first[0], second[0])
	}
}
