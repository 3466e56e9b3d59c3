package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// column is what came out on one store.
type column struct {
	store   string
	results map[string]result // by suite/test
}

// report is what came out.
type report struct {
	suites  []*suite
	columns []column
}

const preface = `# Scorecard

Other people's live tests, run against Crosstown by ` + "`make scorecard`" + `, which writes this file: those that the Go SDK for Azure Service Bus runs against Azure, and those that the AMQP library go-amqp runs against Microsoft's test broker.

The tests are copied out of the module cache and run as they are, each in a process of its own, against a gateway with a development certificate on one port of localhost. The SDK's identity-based clients get their tokens from the gateway's ` + "`--dev-identity`" + ` endpoint. One namespace stands for the two that the SDK's tests want, Standard and Premium. In go-amqp's tests one thing is fitted: nodes are created as queues before links are attached to them, because Service Bus has no node that nobody created. A test that fails is run once more, and listed if it passes then.

Counted are the tests that need a server: those that skip themselves without one. A test passes when all of its subtests do; one of which a subtest skips itself is listed as skipped.

`

// markdown writes the report; reasons are by suite/test.
func (r *report) markdown(reasons map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString(preface)
	b.WriteString("| suite | version |")
	for _, c := range r.columns {
		fmt.Fprintf(&b, " %s |", c.store)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(r.columns)) + "\n")
	for _, s := range r.suites {
		fmt.Fprintf(&b, "| %s | %s |", s.name, s.version)
		for _, c := range r.columns {
			fmt.Fprintf(&b, " **%d** of %d |", len(s.that(c, passed)), len(s.tests))
		}
		b.WriteString("\n")
	}
	r.list(&b, "Not passed", failed, func(name string, _ result) string {
		if reason := reasons[name]; reason != "" {
			return reason
		}
		return "not yet examined"
	})
	r.list(&b, "Skipped by the suite itself", skipped, func(name string, got result) string {
		if reason := reasons[name]; reason != "" {
			return reason
		}
		if got.why == "" {
			return "it does not say why"
		}
		return "it says: " + got.why
	})
	r.listUnsteady(&b)
	r.listOffline(&b)
	return b.Bytes()
}

// that returns a suite's tests with an outcome, as suite/test.
func (s *suite) that(c column, want outcome) []string {
	var all []string
	for _, test := range s.tests {
		if name := s.name + "/" + test; c.results[name].outcome == want {
			all = append(all, name)
		}
	}
	return all
}

// list writes a section with the tests of an outcome, each with its reason.
func (r *report) list(b *bytes.Buffer, title string, want outcome, reason func(string, result) string) {
	stores := map[string][]string{}
	found := map[string]result{}
	var names []string
	for _, s := range r.suites {
		for _, c := range r.columns {
			for _, name := range s.that(c, want) {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
				stores[name] = append(stores[name], c.store)
				found[name] = c.results[name]
			}
		}
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, name := range names {
		fmt.Fprintf(b, "- `%s`", name)
		if parts := found[name].parts; len(parts) > 0 {
			fmt.Fprintf(b, " (in `%s`)", strings.Join(firstFew(parts), "`, `"))
		}
		if len(stores[name]) < len(r.columns) {
			fmt.Fprintf(b, ", on %s only", strings.Join(stores[name], ", "))
		}
		fmt.Fprintf(b, ": %s\n", reason(name, found[name]))
	}
}

// firstFew keeps the report readable.
func firstFew(parts []string) []string {
	if len(parts) > 4 {
		return append(slices.Clone(parts[:3]), fmt.Sprintf("%d more", len(parts)-3))
	}
	return parts
}

// listUnsteady names the tests that passed only at the second attempt.
func (r *report) listUnsteady(b *bytes.Buffer) {
	title := "\n## Passed at the second attempt\n\n"
	for _, s := range r.suites {
		for _, c := range r.columns {
			for _, name := range s.that(c, passed) {
				if c.results[name].again {
					fmt.Fprintf(b, "%s- `%s`, on %s\n", title, name, c.store)
					title = ""
				}
			}
		}
	}
}

// listOffline says what the tests do that need no server.
func (r *report) listOffline(b *bytes.Buffer) {
	b.WriteString("\n## Tests that need no server\n\nThey say nothing about Crosstown and are not counted above.\n\n")
	for _, s := range r.suites {
		good := 0
		for _, ok := range s.offline {
			if ok {
				good++
			}
		}
		fmt.Fprintf(b, "- %s: %d of %d pass\n", s.name, good, len(s.offline))
	}
}
