package server

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the kernel end the child when this process ends, however it does.
func dieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
