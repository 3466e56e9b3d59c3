package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// closedPort must refuse connections, because a test of the Go SDK uses that to show that an option
// works.
const closedPort = "127.0.0.1:5671"

// errNoNetwork is why suites do not run that need a network of their own.
var errNoNetwork = errors.New("it needs a network of its own,")

// network is the network in which gateways and tests run: one of their own, in which every port is
// free, if Linux allows it; otherwise this machine's.
type network struct {
	holder *exec.Cmd // a process that does nothing but be in the network; nil for the machine's
	stdin  io.Closer // ends the holder
	enter  string    // the script that runs a command in there
}

// namespaceHost is the gateway's host name in a network of its own: tests compare the namespace's
// name with the part before the suffix.
const namespaceHost = "sbemulatorns.servicebus.windows.net"

// holding brings the loopback interface up, with an MTU whose maximum segment size a socket option
// accepts (Python's asynchronous transport sets it), gives the gateway its name, reports that it is
// ready, and waits for the end of its input.
const holding = `ip link set lo mtu 16384 && ip link set lo up && mount --bind "$0" /etc/hosts && echo up && exec cat`

// entering runs a command in the network and mounts of a process, in the folder
// of the same name as the present one.
const entering = `exec nsenter --target %d %s -- sh -c 'cd "$0" && exec "$@"' "$(pwd)" "$0" "$@"`

// newNetwork makes a network, with a file in dir, or says why there can be none.
func newNetwork(ctx context.Context, dir string) (*network, error) {
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost "+namespaceHost+"\n::1 localhost\n"), 0o644); err != nil {
		return nil, err
	}
	flags, enter := []string{"--net", "--mount"}, []string{"--net", "--mount"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--map-root-user")
		enter = append(enter, "--user", "--preserve-credentials")
	}
	holder := exec.CommandContext(ctx, "unshare", append(flags, "sh", "-c", holding, hosts)...)
	in, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var problems strings.Builder
	holder.Stderr = &problems
	if err := holder.Start(); err != nil {
		return nil, err
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		_ = in.Close()
		return nil, fmt.Errorf("a network of its own: %w: %s", holder.Wait(), strings.TrimSpace(problems.String()))
	}
	return &network{holder, in, fmt.Sprintf(entering, holder.Process.Pid, strings.Join(enter, " "))}, nil
}

// own reports whether all ports are free here.
func (n *network) own() bool { return n.holder != nil }

func (n *network) close() {
	if n.own() {
		_ = n.stdin.Close()
		_ = n.holder.Wait() // it has no result
	}
}

// command is exec.CommandContext in the network.
func (n *network) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if n.own() {
		args = append([]string{"-c", n.enter, name}, args...)
		name = "sh"
	}
	return exec.CommandContext(ctx, name, args...)
}

// busy reports whether a program listens where none should.
func busy(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", closedPort)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
