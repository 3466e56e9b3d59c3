package client

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// javascriptVariable, when set, makes it a failure that what the tests in
// JavaScript need cannot be installed, and so does CI; else they are skipped then.
const javascriptVariable = "E2E_JS"

var update = flag.Bool("update", false, "write crosstown.d.ts anew")

// TestMain removes what installed has made.
func TestMain(m *testing.M) {
	code := m.Run()
	if directory != "" {
		if err := os.RemoveAll(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

var directory string // of installed

// installed copies the client and its tests to a directory and installs what
// they need there, as the lock file pins it, once for all tests.
var installed = sync.OnceValue(func() (err error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	if directory, err = os.MkdirTemp("", "crosstown-client-"); err != nil {
		return err
	}
	if err := os.CopyFS(directory, os.DirFS("testdata")); err != nil {
		return err
	}
	if err := os.CopyFS(directory, files); err != nil {
		return err
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = directory
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
})

// needNode returns the directory with the client, its tests and what they need.
func needNode(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a short run starts no Node.js")
	}
	err := installed()
	if err != nil && os.Getenv(javascriptVariable) == "" && os.Getenv("CI") == "" {
		t.Skipf("set %s to fail instead: %v", javascriptVariable, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return directory
}

// TestInNode runs the suites of testdata, each against a gateway that follows
// the test's script.
func TestInNode(t *testing.T) {
	t.Parallel()
	dir := needNode(t)
	suites, err := filepath.Glob(filepath.Join(dir, "*.test.mjs"))
	if err != nil || len(suites) < 3 {
		t.Fatalf("got suites %q, %v", suites, err)
	}
	for _, suite := range suites {
		t.Run(filepath.Base(suite), func(t *testing.T) {
			t.Parallel()
			run := exec.CommandContext(t.Context(), "node", "--test", suite)
			run.Dir = dir
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestTypesAreUpToDate has TypeScript check the module strictly, and the types
// that it derives are those that are served.
func TestTypesAreUpToDate(t *testing.T) {
	t.Parallel()
	dir := needNode(t)
	out := t.TempDir()
	check := exec.CommandContext(t.Context(), filepath.Join("node_modules", ".bin", "tsc"), "--project", "tsconfig.json", "--outDir", out)
	check.Dir = dir
	if said, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	want, err := os.ReadFile(filepath.Join(out, "crosstown.d.ts"))
	got, gotErr := os.ReadFile("crosstown.d.ts")
	if err := errors.Join(err, gotErr); err != nil {
		t.Fatal(err)
	}
	if string(got) == string(want) {
		return
	}
	t.Error("crosstown.d.ts is not what TypeScript derives from crosstown.js: run this test with -update")
	if *update {
		if err := os.WriteFile("crosstown.d.ts", want, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// TestTypesServeTypeScript compiles a program that uses the types, and one that
// misuses them.
func TestTypesServeTypeScript(t *testing.T) {
	t.Parallel()
	dir := needNode(t)
	for program, fits := range map[string]bool{"use.ts": true, "misuse.ts": false} {
		check := exec.CommandContext(t.Context(), filepath.Join("node_modules", ".bin", "tsc"), "--strict", "--noEmit", "--target", "es2022",
			"--module", "nodenext", filepath.Join("types", program))
		check.Dir = dir
		if said, err := check.CombinedOutput(); (err == nil) != fits {
			t.Errorf("%s: got %v, want it to fit: %t\n%s", program, err, fits, said)
		}
	}
}
