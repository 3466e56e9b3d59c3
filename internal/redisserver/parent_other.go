//go:build !linux

package redisserver

import "os/exec"

// dieWithParent does nothing, because this system does not support it. A killed process leaves its
// child behind, which the next start finds through the socket.
func dieWithParent(*exec.Cmd) {}
