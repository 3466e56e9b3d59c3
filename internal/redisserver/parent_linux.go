package redisserver

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel end the child when this process ends for any reason.
func dieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
