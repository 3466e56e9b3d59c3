package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/built"
)

// TestPeersAreMeasured runs the comparison of `make bench-peers` on the systems
// that need no peer, for a moment.
func TestPeersAreMeasured(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("processes are measured on Linux only")
	}
	program, results := filepath.Join(t.TempDir(), "peers"), filepath.Join(t.TempDir(), "results.json")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary, err := built.Gateway(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, "-crosstown", binary, "-systems", "memory", "-scenarios", "1k-4x4,fill-drain,sessions,queues-10,gateways-2", "-messages", "400", "-rounds", "2", "-json", results)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var groups map[string]struct {
		Cells map[string]map[string][]map[string]float64
	}
	if err := json.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, group := range groups {
		for scenario, systems := range group.Cells {
			for _, sample := range systems["memory"] {
				found++
				if sample["cpu"] <= 0 || sample["client"] <= 0 {
					t.Errorf("%s: got %v, want the CPU time of gateway and client", scenario, sample)
				}
			}
		}
	}
	if found != 8 || !strings.Contains(string(out), "### 1 KiB, 4 senders") {
		t.Errorf("got %d samples, want 8, and tables:\n%s", found, out)
	}
}
