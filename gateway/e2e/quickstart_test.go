package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// program returns the one block of a language in docs/quickstart.md.
func (e *env) program(language string) []byte {
	e.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "quickstart.md"))
	if err != nil {
		e.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```\n").FindAllSubmatch(page, -1)
	if len(found) != 1 {
		e.Fatalf("docs/quickstart.md has %d programs in %s, want one", len(found), language)
	}
	return found[0][1]
}

// runQuickstart writes a program to a file and runs it as the page says.
func (e *env) runQuickstart(language, file string, command ...string) {
	e.Helper()
	if err := os.WriteFile(file, e.program(language), 0o600); err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(e.Context(), storyTime)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], append(command[1:], file)...)
	c.Env = append(os.Environ(), "SERVICEBUS_CONNECTION_STRING="+e.gw.connection(devPolicy, devKey, true),
		"SSL_CERT_FILE="+e.gw.caFile(), "NODE_EXTRA_CA_CERTS="+e.gw.caFile(), "REQUESTS_CA_BUNDLE="+e.gw.caFile())
	if out, err := c.Output(); err != nil || string(out) != "hello, red\n" {
		e.Fatalf("%v: %v\n%s", command, err, out)
	}
}

func TestQuickstartsRunAsTheyStand(t *testing.T) {
	tell(t, func(e *env) {
		e.Run("Go", func(t *testing.T) {
			(&env{T: t, gw: e.gw}).runQuickstart("go", filepath.Join(t.TempDir(), "main.go"), "go", "run")
		})
		e.Run("JavaScript", func(t *testing.T) {
			inJS := &env{T: t, gw: e.gw}
			inJS.runQuickstart("js", filepath.Join(inJS.packages(), "quickstart.mjs"), "node", "--dns-result-order=ipv4first")
		})
		e.Run("Python", func(t *testing.T) {
			inPython := &env{T: t, gw: e.gw}
			inPython.runQuickstart("python", filepath.Join(t.TempDir(), "quickstart.py"), inPython.interpreter())
		})
	}, "file/tcp")
}
