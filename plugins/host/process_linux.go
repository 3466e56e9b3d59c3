package host

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

const (
	termSignal = syscall.SIGTERM
	killSignal = syscall.SIGKILL
)

// isolate gives a process a process group, which Ctrl-C in the gateway's terminal does not reach,
// and makes the kernel kill it when the gateway ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func signalGroup(pid int, s syscall.Signal) {
	_ = syscall.Kill(-pid, s) // the processes may have ended
}

// openFiles returns the number of open files, or 0 if it is unknown.
func openFiles(pid string) int {
	open, err := os.ReadDir("/proc/" + pid + "/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// occupied returns the used memory in bytes, or 0 if it is unknown.
func occupied(pid string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/statm")
	fields := bytes.Fields(b)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
