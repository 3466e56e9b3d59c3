//go:build !linux

package redisserver

import "os/exec"

// dieWithParent does nothing, because this system does not support it. The child of a killed
// process continues, and the next start finds it through the socket.
func dieWithParent(*exec.Cmd) {}
