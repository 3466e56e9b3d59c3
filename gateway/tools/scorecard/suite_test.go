package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestTestsAreSplitByFile(t *testing.T) {
	t.Parallel()
	got := byFile("::", 2)([]string{"a::1", "a::2", "a::3", "b::1", "c::1", "c::2"})
	want := [][]string{{"a::1", "a::2"}, {"a::3"}, {"b::1"}, {"c::1", "c::2"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestVitestsReportBecomesResults(t *testing.T) {
	t.Parallel()
	results, err := parseVitest([]byte(`{"testResults":[{"name":"/d/test/a.spec.ts","message":"","assertionResults":[
		{"ancestorTitles":["","Queue"],"title":"sends","status":"passed","failureMessages":[]},
		{"ancestorTitles":["Queue"],"title":"sends","status":"failed","failureMessages":["AssertionError: 1"]},
		{"ancestorTitles":[],"title":"later","status":"todo","failureMessages":[]}]}]}`), "/d")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]outcome{
		"test/a.spec.ts > Queue > sends": passed, "test/a.spec.ts > Queue > sends (2)": failed, "test/a.spec.ts > later": skipped,
	} {
		if got := results[name].outcome; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	pattern := regexp.MustCompile(patternOf([]string{"test/a.spec.ts > Queue > sends (2)", "test/a.spec.ts > a+b", "test/a.spec.ts > Queue > size > most > sends"}))
	for name, want := range map[string]bool{
		"Queue sends": true, "a+b": true, "Queue size > most sends": true, // a title has the separator in it
		"aab": false, "Queue sends all": false, "A Queue sends": false,
	} {
		if got := pattern.MatchString(name); got != want {
			t.Errorf("%s: got %v, want %v by %s", name, got, want, pattern)
		}
	}
}

func TestPytestsPluginTellsOfEveryTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const tests = `
import pytest
def test_good(): pass
def test_bad(): assert 1 == 2
@pytest.mark.skip("not yet")
def test_skipped(): pass
@pytest.fixture
def broken():
    yield
    raise Exception("while clearing up")
def test_with_broken_fixture(broken): pass
@pytest.mark.live_test_only
def test_live(): pass
`
	if err := os.WriteFile(filepath.Join(dir, "test_a.py"), []byte(tests), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "shims"), os.DirFS("shims/python")); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("python3", "-c", "import pytest, certifi").Run(); err != nil {
		t.Skip("python3 has no pytest and certifi")
	}
	python := func(ctx context.Context, _ string, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "python3", args...)
	}
	k, s := &pytest{}, &suite{dir: dir}
	env := append(os.Environ(), "PYTHONPATH=shims")
	server := map[string]bool{}
	if printed, err := k.pytest(t.Context(), python, s, env, []string{"--collect-only", "-q"}, func(e event) { server[e.Test] = e.Server }); err != nil || len(server) != 5 {
		t.Fatalf("got %v, %v: %s", server, err, printed)
	}
	if !server["test_a.py::test_live"] || server["test_a.py::test_good"] {
		t.Errorf("got %v as those that need a server", server)
	}
	outcomes := map[string]outcome{}
	if printed, err := k.pytest(t.Context(), python, s, env, []string{"test_a.py"}, func(e event) { outcomes[e.Test] = outcome(e.Outcome) }); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	for name, want := range map[string]outcome{"test_good": passed, "test_bad": failed, "test_skipped": skipped, "test_with_broken_fixture": failed, "test_live": passed} {
		if got := outcomes["test_a.py::"+name]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
