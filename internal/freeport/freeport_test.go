package freeport

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestProcessesGetDifferentPorts takes more ports than a block has, in two
// processes at once.
func TestProcessesGetDifferentPorts(t *testing.T) {
	const taken = size + size/2
	if os.Getenv("FREEPORT_CHILD") != "" {
		for range taken {
			t.Log("port", take(t))
		}
		return
	}
	seen := map[string]bool{}
	for range taken {
		seen[take(t)] = true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), "FREEPORT_CHILD=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, port, ok := strings.Cut(strings.TrimSpace(line), ": port "); ok {
			seen[port] = true
		}
	}
	if len(seen) != 2*taken {
		t.Errorf("two processes took %d ports each, %d of them different\n%s", taken, len(seen), out)
	}
}

// TestTakePassesOverPortsInUse listens on the next ports and on one for a bus.
func TestTakePassesOverPortsInUse(t *testing.T) {
	_ = take(t) // claims a block
	var used []int
	for _, port := range []int{claimed.next, claimed.next + 1, claimed.next + 2 + bus} {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		used = append(used, port%bus)
	}
	for range 3 {
		port, err := Take()
		if err != nil || slices.Contains(used, port%bus) {
			t.Errorf("took port %d, %v, beside %v in use", port, err, used)
		}
	}
}

func take(t *testing.T) string {
	t.Helper()
	port, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	return address(port)
}
