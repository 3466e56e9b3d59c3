package main

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
)

// TestOnlyAddressesOfLinksAreFitted compares what is run with what go-amqp has.
func TestOnlyAddressesOfLinksAreFitted(t *testing.T) {
	t.Parallel()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", goAMQP)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "integration_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "integration_test.go")
	if err := os.WriteFile(path, original, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeNodes(dir); err != nil {
		t.Fatal(err)
	}
	fitted, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after := strings.Split(string(original), "\n"), strings.Split(string(fitted), "\n")
	if len(before) != len(after) {
		t.Fatalf("got %d lines, want %d", len(after), len(before))
	}
	changed := 0
	for i := range before {
		attaches := strings.Contains(before[i], "session.NewSender(") || strings.Contains(before[i], "session.NewReceiver(")
		if after[i] != before[i] && (!attaches || len(after[i])-len(before[i]) != len("queueOf()")) {
			t.Errorf("line %d: got %q, was %q", i+1, after[i], before[i])
		}
		if attaches != (after[i] != before[i]) {
			t.Errorf("line %d attaches a link but was not fitted: %q", i+1, before[i])
		}
		if attaches {
			changed++
		}
	}
	if changed < 10 {
		t.Errorf("only %d calls were fitted", changed)
	}
	for _, file := range []string{path, filepath.Join(dir, "queue_of_test.go")} {
		if _, err := parser.ParseFile(token.NewFileSet(), file, nil, 0); err != nil {
			t.Error(err)
		}
	}
}
