package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// callers is how many ask at once under load.
const callers = 16

func (e *env) pid() int {
	e.Helper()
	d := e.state().Description
	if d == nil {
		e.Fatal("there is no process")
	}
	pid, err := strconv.Atoi(d.PID)
	if err != nil {
		e.Fatal(err)
	}
	return pid
}

// relaunched waits until one more process than before answers.
func (e *env) relaunched(before int) {
	e.Helper()
	e.until("launched again", func() bool { s := e.state(); return s.Launches > before && s.Condition == host.Ready })
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Errorf("kill %d: %v", pid, err)
	}
}

// answeredMore waits until more was answered than so far.
func (e *env) answeredMore() {
	e.Helper()
	n := e.state().Calls.Answered
	e.until("answering", func() bool { return e.state().Calls.Answered > n+100 })
}

func TestKilledPluginRestartsAndAnswersStaySeparate(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	const kills = 5
	seen := e.underLoad(callers, func() {
		for range kills {
			e.answeredMore()
			before := e.state().Launches
			signal(t, e.pid(), syscall.SIGKILL)
			e.relaunched(before)
		}
		e.answeredMore()
	})
	if seen.refused > kills*callers {
		t.Errorf("%d calls were refused, want at most those that were on their way: %d", seen.refused, kills*callers)
	}
	t.Logf("kill -9, %d times: %d calls answered, %d refused, longest without an answer %v", kills, seen.answered, seen.refused, seen.longest)
}

func TestAPluginThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	e := start(t, impatient())
	seen := e.underLoad(callers, func() {
		e.answeredMore()
		before := e.state().Launches
		signal(t, e.pid(), syscall.SIGSTOP)
		e.relaunched(before)
		e.answeredMore()
	})
	t.Logf("stopped: %d calls answered, %d refused, longest without an answer %v", seen.answered, seen.refused, seen.longest)
}

func TestAPluginThatHangsUnaskedIsReplaced(t *testing.T) {
	t.Parallel()
	e := start(t, impatient())
	signal(t, e.pid(), syscall.SIGSTOP)
	e.relaunched(1)
	if s := e.state(); !strings.Contains(s.Problem, "health check") {
		t.Errorf("got %q, want that the health check failed", s.Problem)
	}
}

func TestSomeMessagesThatHangCostOnlyTheirCallers(t *testing.T) {
	t.Parallel()
	o := quick()
	o.CallTimeout = 5 * time.Second // in which others are answered on a busy machine, too
	e := start(t, o)
	seen := e.underLoad(4, func() {
		var hung sync.WaitGroup
		for range 2 {
			hung.Go(func() {
				if _, err := e.ask(message(t, "hung", "do", "hang")); !errors.Is(err, core.Timeout) {
					t.Errorf("got %v, want Timeout", err)
				}
			})
		}
		hung.Wait()
		e.answeredMore()
	})
	if s := e.state(); s.Launches != 1 {
		t.Errorf("%d launches: a plugin that answers others was replaced", s.Launches)
	}
	t.Logf("2 of the frames hang: %d calls answered, %d refused", seen.answered, seen.refused)
}

func TestASlowPluginIsTooLateForItsCallersAndNotForOthers(t *testing.T) {
	t.Parallel()
	o := quick()
	o.CallTimeout = 3 * time.Second // in which the second message is answered on a busy machine, too
	e := start(t, o)
	if _, err := e.ask(message(t, "1", "sleep", int64(3200))); !errors.Is(err, core.Timeout) || !strings.Contains(err.Error(), "3s") {
		t.Errorf("got %v, want Timeout that tells the time", err)
	}
	if v, err := e.ask(message(t, "2", "sleep", int64(10))); err != nil || get(v, "echo") != "2" {
		t.Errorf("got %v, %v", v, err)
	}
	if s := e.state(); s.Calls.Late != 1 || s.Launches != 1 {
		t.Errorf("got %+v, want one late call and one launch", s)
	}
}

func TestAPluginThatCrashesIsBack(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	seen := e.underLoad(callers, func() {
		for range 3 {
			e.answeredMore()
			before := e.state().Launches
			if _, err := e.ask(message(t, "x", "do", "crash")); !errors.Is(err, core.Busy) {
				t.Errorf("got %v, want Busy", err)
			}
			e.relaunched(before)
		}
	})
	if s := e.state(); !strings.Contains(s.Problem, "exit status 7") {
		t.Errorf("problem: got %q, want exit status 7", s.Problem)
	}
	t.Logf("3 crashes: %d calls answered, %d refused, longest without an answer %v", seen.answered, seen.refused, seen.longest)
}

func TestGarbageIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, manner := range []string{"garbage-count", "garbage-id", "garbage-action", "garbage-bytes"} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			e := start(t, quick(manner))
			for range 3 {
				if v, err := e.ask(message(t, "1")); !errors.Is(err, core.Busy) {
					t.Errorf("got %v, %v, want Busy", v, err)
				}
			}
			e.until("replaced", func() bool { return e.state().Launches >= 3 })
		})
	}
}

func TestAFloodOnStandardErrorHurtsNobody(t *testing.T) {
	t.Parallel()
	e := start(t, quick("flood"))
	seen := e.underLoad(callers, func() {
		for range 20 {
			e.answeredMore()
		}
		e.until("told that lines are omitted", func() bool { return e.log.has("left out some") })
	})
	if seen.refused > 0 {
		t.Errorf("%d calls were refused", seen.refused)
	}
	if n := len(e.log.String()); n > 2<<20 {
		t.Errorf("the log has %d bytes", n)
	}
	t.Logf("flood: %d calls answered, longest without an answer %v", seen.answered, seen.longest)
}

func TestTooManyFailuresTurnItOffAndItIsTriedAgain(t *testing.T) {
	t.Parallel()
	o := quick("crash-on-start")
	o.Failures, o.Off = 3, time.Hour
	e := start(t, o)
	e.await(host.Off)
	if s := e.state(); s.Failures != 3 {
		t.Errorf("got %d failures, want 3", s.Failures)
	}
	began := time.Now()
	if _, err := e.ask(message(t, "1")); !errors.Is(err, core.Busy) || time.Since(began) >= o.CallTimeout {
		t.Errorf("got %v after %v, want Busy at once", err, time.Since(began))
	}

	o = quick("crash-once", filepath.Join(t.TempDir(), "crashed"))
	o.Failures, o.Off = 1, 50*time.Millisecond
	e = start(t, o)
	e.await(host.Ready)
	if _, err := e.ask(message(t, "1")); err != nil {
		t.Error(err)
	}
}

func TestCallsWaitForAPluginThatIsAboutToBeBack(t *testing.T) {
	t.Parallel()
	o := quick("crash-once", filepath.Join(t.TempDir(), "crashed"))
	e := start(t, o)
	if _, err := e.ask(message(t, "1")); err != nil {
		t.Error(err)
	}
}

func TestMoreThanTheQueueHoldsIsRefused(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Queue = 4
	e := start(t, o)
	var asked sync.WaitGroup
	for range o.Queue {
		asked.Go(func() {
			if _, err := e.ask(message(t, "slow", "sleep", int64(500))); err != nil {
				t.Error(err)
			}
		})
	}
	e.until("full", func() bool { return e.state().Calls.Waiting == o.Queue })
	if _, err := e.ask(message(t, "1")); !errors.Is(err, core.Busy) {
		t.Errorf("got %v, want Busy", err)
	}
	asked.Wait()
}

func TestAReloadTouchesNoCall(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	first := e.pid()
	seen := e.underLoad(callers, func() {
		for range 3 {
			e.answeredMore()
			if err := e.Reload(t.Context(), "rogue", ""); err != nil {
				t.Error(err)
			}
		}
		e.answeredMore()
	})
	if seen.refused > 0 {
		t.Errorf("%d calls were refused", seen.refused)
	}
	if e.pid() == first || e.state().Launches != 4 {
		t.Errorf("pid %d as before, %d launches", first, e.state().Launches)
	}
	e.until("ended", func() bool { return syscall.Kill(first, 0) != nil })
	t.Logf("3 reloads: %d calls answered, longest without an answer %v", seen.answered, seen.longest)
}

func TestAReloadLetsTheOldOneFinish(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	slow := make(chan error, 1)
	go func() {
		_, err := e.ask(message(t, "slow", "sleep", int64(300)))
		slow <- err
	}()
	e.until("asked", func() bool { return e.state().Calls.Waiting == 1 })
	if err := e.Reload(t.Context(), "rogue", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-slow; err != nil {
		t.Errorf("the call on its way: %v", err)
	}
}

func TestAReloadThatFailsKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	e := start(t, quick())
	first := e.pid()
	err := e.Reload(t.Context(), "rogue", strings.Repeat("00", 32))
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("got %v, want that the checksum is another", err)
	}
	if _, err := e.ask(message(t, "1")); err != nil || e.pid() != first {
		t.Errorf("asked: %v; pid %d, want %d", err, e.pid(), first)
	}
	if err := e.Reload(t.Context(), "rogue", ""); err != nil {
		t.Errorf("the next reload: %v", err)
	}
}

func TestReloadStartsAPluginThatWasSwitchedOff(t *testing.T) {
	t.Parallel()
	o := quick("crash-once", filepath.Join(t.TempDir(), "crashed"))
	o.Failures, o.Off = 1, time.Hour
	e := start(t, o)
	e.await(host.Off)
	if err := e.Reload(t.Context(), "rogue", ""); err != nil {
		t.Fatal(err)
	}
	e.await(host.Ready)
}

func TestStoppingLetsCallsFinishAndLeavesNothing(t *testing.T) {
	t.Parallel()
	child := filepath.Join(t.TempDir(), "child")
	o := quick("child", child)
	o.Env = []string{"PATH"}
	e := start(t, o)
	pid := e.pid()
	b, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	childPID, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	go func() {
		_, err := e.ask(message(t, "slow", "sleep", int64(300)))
		slow <- err
	}()
	e.until("asked", func() bool { return e.state().Calls.Waiting == 1 })
	e.stop()
	if err := <-slow; err != nil {
		t.Errorf("the call on its way: %v", err)
	}
	if _, err := e.ask(message(t, "1")); !errors.Is(err, core.Busy) {
		t.Errorf("asked after the stop: got %v, want Busy", err)
	}
	for _, pid := range []int{pid, childPID} {
		e.until("gone", func() bool { return gone(pid) })
	}
}

// gone reports whether a process has ended, waited for or not.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// TestRestartsLeaveNothingOpen is not parallel: it counts what the test process
// has open.
func TestRestartsLeaveNothingOpen(t *testing.T) {
	// Other processes also have sockets of plugins. The path of a socket is at most 107 bytes long.
	dir, err := os.MkdirTemp("", "ct")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	e := start(t, quick())
	if _, err := e.ask(message(t, "1")); err != nil {
		t.Fatal(err)
	}
	sockets := func() int {
		found, _ := filepath.Glob(filepath.Join(os.TempDir(), "crosstown-plugin-*"))
		return len(found)
	}
	files := func() int { open, _ := os.ReadDir("/proc/self/fd"); return len(open) }
	openBefore, socketsBefore := files(), sockets()
	if socketsBefore == 0 {
		t.Fatal("the plugin has no socket in the temporary directory")
	}
	for n := range 10 {
		before := e.state().Launches
		if n%2 == 0 {
			signal(t, e.pid(), syscall.SIGKILL)
		} else if err := e.Reload(t.Context(), "rogue", ""); err != nil {
			t.Fatal(err)
		}
		e.relaunched(before)
	}
	e.until("closed", func() bool { return files() <= openBefore+2 && sockets() <= socketsBefore })
}

func TestAPluginThatLeaksIsReplaced(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.Memory = 1 // whatever it has is too much
		e := start(t, o)
		seen := e.underLoad(4, func() { e.relaunched(2) })
		if seen.refused > 0 || !e.log.has("too much memory") {
			t.Errorf("%d calls were refused; the log: %s", seen.refused, e.log)
		}
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		o := quick()
		o.Files = 100
		e := start(t, o)
		seen := e.underLoad(4, func() {
			for e.state().Launches < 3 {
				if _, err := e.ask(message(t, "x", "do", "leak")); err != nil {
					t.Errorf("a message on which it leaks: %v", err)
				}
			}
		})
		if seen.refused > 0 || !e.log.has("too many open files") {
			t.Errorf("%d calls were refused; the log: %s", seen.refused, e.log)
		}
	})
}
