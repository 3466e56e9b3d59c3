package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// A kind runs the suites of one SDK with the tool that its authors run them with.
type kind interface {
	// prepare copies the SDK's suites to dir, a directory of its own, and installs their
	// dependencies. Only prepare uses the machine's network.
	prepare(ctx context.Context, dir string) ([]*suite, error)
	// list finds out which tests a suite has: it fills in tests and offline.
	list(ctx context.Context, s *suite) error
	// run runs some of a suite's tests against a gateway, by commands of g.command, and reports
	// each result to ended. A test without a report has failed.
	run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(test string, got result))
}

// suite is a set of tests that one gateway can serve, a row of the scorecard.
type suite struct {
	kind    kind     // nil is the one that prepared it
	sdk     string   // its kind's name
	name    string   // as in the report
	version string   // of the SDK
	about   string   // how it is run, a sentence or more for the report; may be ""
	dir     string   // where its tests want to run
	gateway variant  // what gateway it wants
	tests   []string // those that need a server, in their order
	// groups splits tests into those that must run one after the other against one
	// gateway; nil if all of them must.
	groups func(tests []string) [][]string
	// offline has the tests that need no server, and whether they pass.
	offline map[string]bool
}

// variant is a way to start a gateway.
type variant struct {
	// ports makes the gateway listen on the ports of Service Bus, 5671, 5672, 443
	// and 80, of namespaceHost. It needs a network of its own.
	ports bool
	flags []string // such as --strict
}

// outcome is how a test ended.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// result is what the gateway knows of a test.
type result struct {
	outcome outcome
	parts   []string // its subtests with the outcome, unless it passed, without its own name
	why     string   // what it said when it skipped itself
	printed string
	again   bool // it did not pass at first
}

// versionIn returns what a file says of a version, the first group of a pattern.
func versionIn(path, pattern string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s names no version", path)
	}
	return string(found[1]), nil
}

// output runs a command and returns what it prints; its errors hold all it said.
func output(ctx context.Context, dir string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, &problems, &out)
	}
	return out.String(), nil
}

// byFile splits tests by the part before a separator, and further into chunks of at most n.
func byFile(separator string, most int) func([]string) [][]string {
	return func(tests []string) [][]string {
		var groups [][]string
		last := ""
		for _, test := range tests {
			file, _, _ := strings.Cut(test, separator)
			if i := len(groups) - 1; i >= 0 && file == last && len(groups[i]) < most {
				groups[i] = append(groups[i], test)
				continue
			}
			groups = append(groups, []string{test})
			last = file
		}
		return groups
	}
}
