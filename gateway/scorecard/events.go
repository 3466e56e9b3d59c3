package main

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// outcome is how a test ended.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// result is what is known of a top-level test.
type result struct {
	outcome outcome
	parts   []string // its subtests that failed or were skipped, without its own name
	why     string   // what it said when it skipped itself
	printed string
	again   bool // it did not pass at first
}

// parse reads what test2json prints. A test that began and never ended, in a
// panic or by a time-out, has failed.
func parse(r io.Reader) map[string]result {
	results := map[string]result{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		top, part, isPart := strings.Cut(event.Test, "/")
		got := results[top]
		switch event.Action {
		case "run":
			if !isPart {
				got.outcome = failed // until it says otherwise
			}
		case "output":
			got.printed += event.Output
			if text, ok := skipText(event.Output); ok {
				got.why = text
			}
		case "pass", "fail", "skip":
			if !isPart {
				got.outcome = outcome(event.Action)
			} else if event.Action != "pass" && !slices.Contains(got.parts, part) {
				got.parts = append(got.parts, part)
			}
		}
		results[top] = got
	}
	return results
}

// skipText returns what a test said, if a line of output is that: "    file_test.go:12: text".
func skipText(line string) (string, bool) {
	_, text, ok := strings.Cut(line, "_test.go:")
	if !ok {
		return "", false
	}
	_, text, ok = strings.Cut(text, ": ")
	return strings.TrimSpace(text), ok
}
