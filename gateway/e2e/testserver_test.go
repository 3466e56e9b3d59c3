package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The examples of tests that start a gateway of their own, as their users run them.

// exampleOf returns the path of a file of the examples.
func exampleOf(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "examples", "testing"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runExample runs tests of an example with the built gateway.
func runExample(e *env, dir, program string, args ...string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), storyTime)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CROSSTOWN="+binary, "ENTITIES="+exampleOf(e.T, "orders.yaml"))
	if out, err := c.CombinedOutput(); err != nil {
		e.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func TestTheExampleOfTestsInPython(t *testing.T) {
	tell(t, func(e *env) {
		runExample(e, exampleOf(t, "python"), e.interpreter(), "-m", "unittest", "-v", "test_orders")
	}, "memory/tcp")
}

func TestTheExampleOfTestsInNode(t *testing.T) {
	tell(t, func(e *env) {
		dir := e.packages()
		text, err := os.ReadFile(exampleOf(t, "node", "orders.test.mjs"))
		if err != nil {
			e.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "orders.test.mjs"), text, 0o600); err != nil {
			e.Fatal(err)
		}
		runExample(e, dir, "node", "--dns-result-order=ipv4first", "--test", "orders.test.mjs")
	}, "memory/tcp")
}
