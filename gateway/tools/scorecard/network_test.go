package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestCommandsRunInTheNetworkAndInTheirFolder(t *testing.T) {
	t.Parallel()
	n, err := newNetwork(t.Context(), t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	defer n.close()
	dir := t.TempDir()
	cmd := n.command(t.Context(), "sh", "-c", `pwd && getent hosts "$0"; ip -o link | wc -l`, namespaceHost)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < 4 || lines[0] != dir || !strings.HasPrefix(lines[1], "127.0.0.1") || lines[len(lines)-2] != "1" {
		t.Errorf("got %q, want the folder %s, 127.0.0.1 for %s, and the loopback interface alone", out, dir, namespaceHost)
	}
	if err := n.command(t.Context(), "false").Run(); err == nil {
		t.Error("a command that failed did not")
	} else if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		t.Error(err)
	}
}
