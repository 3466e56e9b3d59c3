//go:build unix

package local

import (
	"os/exec"
	"syscall"
)

// apart keeps a terminal's interrupt from the gateway: it is the example that
// stops it, once.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
