package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
)

// parse reads the output of test2json. A test that began but did not end, because of a panic or a
// time-out, has failed. A test of which a part was skipped and no part failed counts as skipped.
func parse(r io.Reader) map[string]result {
	results := map[string]result{}
	parts := map[string]map[outcome][]string{}
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
				break
			}
			if parts[top] == nil {
				parts[top] = map[outcome][]string{}
			}
			parts[top][outcome(event.Action)] = append(parts[top][outcome(event.Action)], part)
		}
		results[top] = got
	}
	for top, by := range parts {
		got := results[top]
		if got.outcome == passed && len(by[skipped]) > 0 {
			got.outcome = skipped
		}
		if got.outcome != passed {
			got.parts = by[got.outcome]
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
