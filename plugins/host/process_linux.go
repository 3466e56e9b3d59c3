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

// isolate gives a process a group of its own, which Ctrl-C at the gateway's terminal does not
// reach, and makes it die with the gateway: no plugin outlives its gateway.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func signalGroup(pid int, s syscall.Signal) {
	_ = syscall.Kill(-pid, s) // it may have ended
}

// openFiles is the number of files a process has open, 0 if that is not known.
func openFiles(pid string) int {
	open, err := os.ReadDir("/proc/" + pid + "/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// occupied is the number of bytes a process occupies, 0 if that is not known.
func occupied(pid string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/statm")
	fields := bytes.Fields(b)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
