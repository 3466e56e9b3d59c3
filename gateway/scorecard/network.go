package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
)

// closedPort must refuse connections: one test of the SDK's proves by that that
// an option works.
const closedPort = "127.0.0.1:5671"

// dirFlag names the directory that a run leaves to the one below it.
const dirFlag = "dir"

// busy reports whether somebody listens where nobody should.
func busy(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", closedPort)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// alone runs this program again in a network of its own, where Linux lets it
// have one. What needs the real network is in dir already.
func alone(ctx context.Context, dir string) error {
	flags := []string{"--net"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--map-root-user")
	}
	up := []string{"sh", "-c", `ip link set lo up && exec "$0" "$@"`}
	if err := exec.CommandContext(ctx, "unshare", append(append(flags, up...), "true")...).Run(); err != nil {
		return fmt.Errorf("a program listens on %s, where a test of the SDK's relies on nobody listening: stop it (a network of our own cannot be had: %w)", closedPort, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append(append(append(flags, up...), self, "-"+dirFlag, dir), os.Args[1:]...)
	again := exec.CommandContext(ctx, "unshare", args...)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	if err := again.Run(); err != nil {
		return errors.Join(errors.New("in a network of our own"), err)
	}
	return nil
}
