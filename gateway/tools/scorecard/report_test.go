package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// ran is a suite's entry after a run on both engines.
func ran(t *testing.T) *record {
	t.Helper()
	s := &suite{sdk: "go", name: "sdk", version: "v1.2.3", about: "As it is.", tests: []string{"TestA", "TestB", "TestC", "TestD", "TestSessionE"}, offline: map[string]bool{"TestUnit": true, "TestOther": false}}
	r := &record{}
	r.put(s, "memory", newScore(s, &gateway{about: "memory", version: "v0.1.0"}, s.tests, map[string]result{
		"TestA": {outcome: passed}, "TestB": {outcome: failed, parts: []string{"x"}}, "TestC": {outcome: skipped, why: "no injector"},
		"TestD": {outcome: failed}, "TestSessionE": {outcome: passed, again: true},
	}))
	r.put(s, "redis", newScore(s, &gateway{about: "redis, 7.0.15", version: "v0.2.0"}, s.tests, map[string]result{
		"TestA": {outcome: passed}, "TestB": {outcome: failed}, "TestC": {outcome: skipped, why: "no injector"},
		"TestD": {outcome: passed}, "TestSessionE": {outcome: passed},
	}))
	return r
}

func TestTheReportHasAReasonForEveryTestThatDidNotPass(t *testing.T) {
	t.Parallel()
	got := string(ran(t).markdown(map[string]string{"sdk/TestB": "It is known."}))
	for _, want := range []string{
		"| SDK | suite | version | memory | file | redis, 7.0.15 | gateway |\n",
		"| Go | sdk | v1.2.3 | **2** of 5 | not run | **3** of 5 | v0.1.0, v0.2.0 |\n",
		"- sdk: As it is.\n",
		"- `sdk/TestB` (in `x`): It is known.\n",
		"- `sdk/TestD`, on memory only: not yet examined\n",
		"## Skipped by the suite itself\n\n- `sdk/TestC`: the test says: no injector\n",
		"## Passed at the second attempt\n\n- `sdk/TestSessionE`, on memory\n",
		"- sdk: 1 of 2 pass\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

func TestAnSDKWithoutResultsIsNotRun(t *testing.T) {
	t.Parallel()
	if got, want := string((&record{}).markdown(nil)), "| Go | | | not run | not run | not run | |\n"; !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
}

func TestTheTableCountsWhatPassesOnEveryEngine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte("before\n"+tableBegins+"old\n"+tableEnds+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ran(t).writeTable(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + tableBegins + "| | Go |\n|---|---|\n| live tests passed | 2 of 5 |\n" + tableEnds + "after\n"
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	features := string(ran(t).table())
	for _, want := range []string{"| Go | 1 of 4 | 1 of 1 | not in the SDK |", "| v1.2.3 | 2 of 5, 1 skipped |\n" + legend} {
		if !strings.Contains(features, want) {
			t.Errorf("lacks %q:\n%s", want, features)
		}
	}
}

func TestResultsOutliveARunOfOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	before := ran(t)
	if err := before.write(path); err != nil {
		t.Fatal(err)
	}
	after, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	other := &suite{sdk: "go", name: "another", version: "v1"}
	after.put(other, "memory", newScore(other, &gateway{about: "memory"}, nil, nil))
	if got, want := len(after.Suites), 2; got != want {
		t.Errorf("got %d suites, want %d", got, want)
	}
	newer := &suite{sdk: "go", name: "sdk", version: "v1.3.0"}
	after.put(newer, "memory", newScore(newer, &gateway{about: "memory"}, nil, nil))
	if got := after.Suites[1].Scores; got["redis"] != nil || got["memory"] == nil {
		t.Errorf("got %v, want only what the newer version showed", got)
	}
}

func TestResultsOfSomeTestsAmendThoseOfAll(t *testing.T) {
	t.Parallel()
	r := ran(t)
	s := &suite{sdk: "go", name: "sdk", version: "v1.2.3"}
	tests := []string{"TestB", "TestC", "TestSessionE"}
	sum := newScore(s, &gateway{about: "memory", version: "v0.3.0"}, tests, map[string]result{
		"TestB": {outcome: passed, again: true}, "TestC": {outcome: failed}, "TestSessionE": {outcome: passed},
	})
	if err := r.merge(s, "memory", tests, sum); err != nil {
		t.Fatal(err)
	}
	got := r.Suites[0].Scores["memory"]
	want := &score{
		Store: "memory", Gateway: "v0.1.0 (3 tests: v0.3.0)", Tests: 5,
		Failed: map[string]told{"TestC": {}, "TestD": {}}, Skipped: map[string]told{}, Again: []string{"TestB"},
		Features: map[string]tally{"send, receive": {2, 4}, "sessions": {1, 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := r.merge(&suite{sdk: "go", name: "sdk", version: "v2"}, "memory", tests, sum); err == nil {
		t.Error("results of another version were amended")
	}
}

// TestThePublishedScoreHasItsReasons holds the committed report to its promise:
// it and the README's table say what the kept results say.
func TestThePublishedScoreHasItsReasons(t *testing.T) {
	t.Parallel()
	r, err := readRecord("results.json")
	if err != nil {
		t.Fatal(err)
	}
	published, err := os.ReadFile("../../../SCORECARD.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := r.markdown(reasons); !bytes.Equal(published, want) {
		t.Error("SCORECARD.md is not what the results and reasons say: run make scorecard SUITES=none")
	}
	for line := range strings.Lines(string(published)) {
		if strings.Contains(line, "not yet examined") {
			t.Errorf("a test that did not pass has no reason: %s", line)
		}
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := tableBegins + string(r.summary()) + tableEnds; !bytes.Contains(readme, []byte(want)) {
		t.Error("the README's table is not what the results say: run make scorecard SUITES=none")
	}
}
