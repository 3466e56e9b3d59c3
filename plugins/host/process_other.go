//go:build !linux

package host

import (
	"os"
	"os/exec"
	"syscall"
)

const (
	termSignal = syscall.SIGTERM
	killSignal = syscall.SIGKILL
)

func isolate(*exec.Cmd) {}

// signalGroup signals only the process itself, not its children.
func signalGroup(pid int, s syscall.Signal) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	if err := p.Signal(s); err != nil {
		_ = p.Kill() // this system may have no SIGTERM
	}
}

func openFiles(string) int { return 0 }

func occupied(string) int64 { return 0 }
