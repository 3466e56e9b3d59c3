package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheReportHasAReasonForEveryTestThatDidNotPass(t *testing.T) {
	t.Parallel()
	s := &suite{name: "sdk", version: "v1.2.3", tests: []string{"TestA", "TestB", "TestC", "TestD", "TestE"}, offline: map[string]bool{"TestUnit": true, "TestOther": false}}
	r := report{suites: []*suite{s}, columns: []column{
		{"memory", map[string]result{
			"sdk/TestA": {outcome: passed}, "sdk/TestB": {outcome: failed, parts: []string{"x"}}, "sdk/TestC": {outcome: skipped, why: "no injector"},
			"sdk/TestD": {outcome: failed}, "sdk/TestE": {outcome: passed, again: true},
		}},
		{"redis", map[string]result{
			"sdk/TestA": {outcome: passed}, "sdk/TestB": {outcome: failed}, "sdk/TestC": {outcome: skipped, why: "no injector"},
			"sdk/TestD": {outcome: passed}, "sdk/TestE": {outcome: passed},
		}},
	}}
	got := string(r.markdown(map[string]string{"sdk/TestB": "It is known."}))
	for _, want := range []string{
		"| suite | version | memory | redis |\n",
		"| sdk | v1.2.3 | **2** of 5 | **3** of 5 |\n",
		"- `sdk/TestB`: It is known.\n",
		"- `sdk/TestD`, on memory only: not yet examined\n",
		"## Skipped by the suite itself\n\n- `sdk/TestC`: it says: no injector\n",
		"## Passed at the second attempt\n\n- `sdk/TestE`, on memory\n",
		"- sdk: 1 of 2 pass\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

// TestThePublishedScoreHasItsReasons holds the committed report to its promise.
func TestThePublishedScoreHasItsReasons(t *testing.T) {
	t.Parallel()
	published, err := os.ReadFile("../../SCORECARD.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(published); strings.Contains(text, "not yet examined") || !strings.HasPrefix(text, "# Scorecard\n") {
		t.Errorf("a test that did not pass has no reason:\n%s", regexp.MustCompile(`(?m)^.*not yet examined$`).FindString(text))
	}
	if rows := regexp.MustCompile(`\*\*\d+\*\* of \d+`).FindAllString(string(published), -1); len(rows) < len(sources) {
		t.Errorf("got %d scores, want one for each of %d suites", len(rows), len(sources))
	}
}
