//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/built"
)

// The first commands of docs/plugins.md work as they are there, in a directory that knows nothing of
// Crosstown's source, with a program that was built from it.
func TestAPluginIsMadeAsThePageSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(page)
	if block == nil || !strings.Contains(string(block[1]), "plugin new router stamp") {
		t.Fatalf("the page begins with %s", block)
	}
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "sh", "-ec", string(block[1]))
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+builtProgram(t)+":"+os.Getenv("PATH"), "GOFLAGS=-mod=mod", "GOWORK=off", "GONOSUMDB=*")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"wrote stamp: ", "the project's go.mod uses Crosstown's source in ", "next:\n  cd stamp\n", "stamp/stamp is usable: stamp 0.1.0, contract 1, router"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

// builtProgram returns the directory of the program, below the source, as make build puts it there.
func builtProgram(t *testing.T) string {
	t.Helper()
	if err := os.MkdirAll("../bin", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("../bin", "test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	program, err := built.Gateway(dir)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(program)
}
