package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Contexts decide where commands connect, in the order that docs/command-line.md has.
func TestContexts(t *testing.T) {
	t.Parallel()
	first, second := startGateway(t, "--store=memory"), startGateway(t, "--store=memory")
	first.command(t, "", "queue", "create", "in-first")
	second.command(t, "", "queue", "create", "in-second")
	file := filepath.Join(t.TempDir(), "new", "contexts.json")
	try := func(stdin string, more []string, args ...string) (int, string, string) {
		t.Helper()
		out, problems := newOutput(), newOutput()
		environ := append([]string{"CROSSTOWN_CONTEXTS=" + file, "CROSSTOWN_DATA=" + t.TempDir()}, more...)
		code := run(t.Context(), args, strings.NewReader(stdin), out, problems, environ)
		return code, out.String(), problems.String()
	}
	do := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := try("", nil, args...)
		if code != exitOK {
			t.Fatalf("crosstown %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	if code, stdout, stderr := try(first.connection+"\n", nil, "context", "save", "one", "--from-stdin"); code != exitOK || stdout != "saved context one in "+file+"\n" {
		t.Fatalf("save: got %d %q %s", code, stdout, stderr)
	}
	do("context", "save", "two", "--connection-string", second.secure, "--ca", filepath.Join(second.data, "ca.pem"), "--use")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v, want mode 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := do("context", "current"); got != "two\n" {
		t.Errorf("current: %q", got)
	}
	if code, stdout, stderr := try("", []string{"CROSSTOWN_CONTEXT=one"}, "context", "current"); code != exitOK || stdout != "two\n" || !strings.Contains(stderr, "note: CROSSTOWN_CONTEXT is set") {
		t.Errorf("current beside a variable: got %d %s%s", code, stdout, stderr)
	}
	listed := do("context", "list")
	if strings.Contains(listed, "SAS_KEY_VALUE") || !strings.Contains(listed, "*        two") || !strings.Contains(listed, "         one      localhost:") {
		t.Errorf("list:\n%s", listed)
	}
	if got := do("context", "list", "--json") + do("context", "show", "one"); strings.Contains(got, "SAS_KEY_VALUE") || !strings.Contains(got, "SharedAccessKey=***") {
		t.Errorf("the key is shown, or not even masked: %s", got)
	}
	if got := do("context", "show", "one", "--reveal"); !strings.Contains(got, first.connection) {
		t.Errorf("show --reveal: %s", got)
	}

	list := []string{"queue", "list"}
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		want    string
	}{
		{"the current context, over TLS with its CA", nil, list, "in-second"},
		{"CROSSTOWN_CONTEXT", []string{"CROSSTOWN_CONTEXT=one"}, list, "in-first"},
		{"CROSSTOWN_CONNECTION_STRING before contexts", []string{"CROSSTOWN_CONNECTION_STRING=" + first.connection, "CROSSTOWN_CONTEXT=two"}, list, "in-first"},
		{"--context before variables", []string{"CROSSTOWN_CONNECTION_STRING=" + second.connection, "CROSSTOWN_CONTEXT=two"}, []string{"queue", "list", "--context=one"}, "in-first"},
		{"--connection-string before all", []string{"CROSSTOWN_CONTEXT=two"}, []string{"queue", "list", "--connection-string", first.connection}, "in-first"},
	} {
		if code, stdout, stderr := try("", c.environ, c.args...); code != exitOK || !strings.Contains(stdout, c.want+" ") {
			t.Errorf("%s: got %d %s%s, want %s", c.name, code, stdout, stderr, c.want)
		}
	}

	if got := do("import", "--from=one", "--context=two"); !strings.Contains(got, "created queue in-first") {
		t.Errorf("from one context to another: %s", got)
	}

	first.halt(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"not saved", []string{"queue", "list", "--context=three"}, exitUsage, []string{`--context: context "three" does not exist in ` + file, "crosstown context save three"}},
		{"away", []string{"queue", "list", "--context=one"}, exitFailure, []string{"cannot connect to localhost:", "(context one of " + file + ")"}},
		{"both", []string{"queue", "list", "--context=one", "--connection-string=x"}, exitUsage, []string{"context", "connection-string"}},
		{"no connection string", []string{"context", "save", "x"}, exitUsage, []string{"--connection-string", "--from-stdin", "CROSSTOWN_CONNECTION_STRING"}},
		{"a wrong one", []string{"context", "save", "x", "--connection-string=secret"}, exitUsage, []string{"write Endpoint=sb://"}},
		{"a CA that is none", []string{"context", "save", "x", "--connection-string", first.connection, "--ca", file}, exitUsage, []string{file + " contains no certificate in PEM"}},
		{"a name that cannot be", []string{"context", "save", "a b", "--connection-string=x"}, exitUsage, []string{`"a b" is not a valid name for a context`}},
		{"use what is not there", []string{"context", "use", "three"}, exitFailure, []string{`context "three" does not exist`}},
	} {
		code, _, stderr := try("", nil, c.args...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: lacks %q: %s", c.name, want, stderr)
			}
		}
		if strings.Contains(stderr, "=secret") {
			t.Errorf("%s: shows what may be a key: %s", c.name, stderr)
		}
	}

	if got := do("context", "remove", "two"); !strings.Contains(got, "no context is current") {
		t.Errorf("remove: %s", got)
	}
	if code, _, stderr := try("", nil, "context", "current"); code != exitFailure || !strings.Contains(stderr, "no context is current in "+file) {
		t.Errorf("current: got %d %s", code, stderr)
	}
	do("context", "use", "one")
	do("context", "use", "--none")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := try("", nil, list...); code != exitFailure || !strings.Contains(stderr, file) || !strings.Contains(stderr, "correct the file or remove it") {
		t.Errorf("a damaged file: got %d %s", code, stderr)
	}
}

// A load without a URL and a queue makes its queues and removes them.
func TestBenchMakesItsQueues(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	for _, connection := range []string{g.connection, g.secure} {
		for _, args := range [][]string{{}, {"--queues=2"}, {"--mode=sessions"}} {
			args = append([]string{"bench", "--messages=50", "--patience=20s"}, args...)
			if code, stdout, stderr := g.try(t, connection, "", args...); code != exitOK || !strings.Contains(stderr, "new queue, crosstown-bench-") {
				t.Errorf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
			}
		}
	}
	if left := g.command(t, "", "queue", "list", "--json"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if code, _, stderr := g.try(t, g.connection, "", "bench", "--url=amqp://localhost", "--entity=q", "--context=x"); code != exitUsage || !strings.Contains(stderr, "url") {
		t.Errorf("a URL and a context: got %d %s", code, stderr)
	}
}
