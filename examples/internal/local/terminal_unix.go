//go:build unix

package local

import (
	"os/exec"
	"syscall"
)

// apart keeps a terminal's interrupt from the gateway, because the example stops the gateway.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
