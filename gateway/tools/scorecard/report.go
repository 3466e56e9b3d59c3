package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const preface = `# Scorecard

This page shows which live tests of other projects pass with Crosstown. They are the tests that the authors of the official SDKs run against Azure Service Bus, and the tests of the AMQP library go-amqp, which its authors run against Microsoft's test broker. ` + "`make scorecard`" + ` runs the tests and writes this file.

The tests run unchanged, against a gateway with a development certificate. ` + "`make scorecard`" + ` replaces what the tests expect of Azure: credentials, the creation of entities, and unpublished tools of the SDKs' repositories. The SDKs' identity-based clients get their tokens from the gateway's ` + "`--dev-identity`" + ` endpoint. A test that fails runs once more after the others, alone; if it then passes, it is listed under "Passed at the second attempt". A suite that did not run again keeps its earlier result. The column "gateway" shows the version of the gateway in each result.

The tables count the tests that need a server. A test passes if all of its subtests pass. A test counts as skipped if one of its subtests skips itself.

`

// engines are the columns.
var engines = []string{"memory", "file", "redis"}

// markdown writes the report; reasons are by suite/test.
func (r *record) markdown(reasons map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString(preface)
	b.WriteString("| SDK | suite | version |")
	for _, engine := range engines {
		fmt.Fprintf(&b, " %s |", r.heading(engine))
	}
	b.WriteString(" gateway |\n|---|---|---|" + strings.Repeat("---|", len(engines)) + "---|\n")
	for _, k := range kinds {
		rows := r.of(k.name)
		if len(rows) == 0 {
			fmt.Fprintf(&b, "| %s | | |%s |\n", titles[k.name], strings.Repeat(" not run |", len(engines)))
		}
		for _, e := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s |", titles[k.name], e.Name, e.Version)
			var gateways []string
			for _, engine := range engines {
				s := e.Scores[engine]
				if s == nil {
					b.WriteString(" not run |")
					continue
				}
				fmt.Fprintf(&b, " **%d** of %d |", s.passed(), s.Tests)
				if !slices.Contains(gateways, s.Gateway) {
					gateways = append(gateways, s.Gateway)
				}
			}
			fmt.Fprintf(&b, " %s |\n", strings.Join(gateways, ", "))
		}
	}
	b.WriteString(measured)
	b.WriteString("\n## By feature\n\n")
	b.Write(r.table())
	r.about(&b)
	r.list(&b, "Not passed", func(s *score) map[string]told { return s.Failed }, func(name string, _ told) string {
		if reason := reasons[name]; reason != "" {
			return reason
		}
		return "not yet examined"
	})
	r.list(&b, "Skipped by the suite itself", func(s *score) map[string]told { return s.Skipped }, func(name string, got told) string {
		if reason := reasons[name]; reason != "" {
			return reason
		}
		if got.Why == "" {
			return "it does not say why"
		}
		return "the test says: " + got.Why
	})
	r.listUnsteady(&b)
	r.listOffline(&b)
	return b.Bytes()
}

// of returns an SDK's rows.
func (r *record) of(sdk string) []*entry {
	var rows []*entry
	for _, e := range r.Suites {
		if e.SDK == sdk {
			rows = append(rows, e)
		}
	}
	return rows
}

// heading names an engine with the version that ran last.
func (r *record) heading(engine string) string {
	for _, e := range r.Suites {
		if s := e.Scores[engine]; s != nil {
			return s.Store
		}
	}
	return engine
}

// about writes how suites are run.
func (r *record) about(b *bytes.Buffer) {
	title := "\n## How they run\n\n"
	for _, e := range r.Suites {
		if e.About != "" {
			fmt.Fprintf(b, "%s- %s: %s\n", title, e.Name, e.About)
			title = ""
		}
	}
}

// list writes a section with the tests of an outcome, each with its reason.
func (r *record) list(b *bytes.Buffer, title string, of func(*score) map[string]told, reason func(string, told) string) {
	title = "\n## " + title + "\n\n"
	for _, e := range r.Suites {
		ran := 0
		on := map[string][]string{} // test → engines
		found := map[string]told{}
		for _, engine := range engines {
			s := e.Scores[engine]
			if s == nil {
				continue
			}
			ran++
			for test, got := range of(s) {
				on[test] = append(on[test], engine)
				if len(got.Parts) >= len(found[test].Parts) {
					found[test] = got
				}
			}
		}
		for _, test := range slices.Sorted(maps.Keys(on)) {
			name := e.Name + "/" + test
			fmt.Fprintf(b, "%s- `%s`", title, name)
			title = ""
			if parts := found[test].Parts; len(parts) > 0 {
				fmt.Fprintf(b, " (in `%s`)", strings.Join(firstFew(parts), "`, `"))
			}
			if len(on[test]) < ran {
				fmt.Fprintf(b, ", on %s only", strings.Join(on[test], ", "))
			}
			fmt.Fprintf(b, ": %s\n", reason(name, found[test]))
		}
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
func (r *record) listUnsteady(b *bytes.Buffer) {
	title := "\n## Passed at the second attempt\n\n"
	for _, e := range r.Suites {
		for _, engine := range engines {
			if s := e.Scores[engine]; s != nil {
				for _, test := range s.Again {
					fmt.Fprintf(b, "%s- `%s/%s`, on %s\n", title, e.Name, test, engine)
					title = ""
				}
			}
		}
	}
}

// listOffline says what the tests do that need no server.
func (r *record) listOffline(b *bytes.Buffer) {
	title := "\n## Tests that need no server\n\nThese tests do not use Crosstown. The tables above do not count them.\n\n"
	for _, e := range r.Suites {
		if e.Offline.Of > 0 {
			fmt.Fprintf(b, "%s- %s: %d of %d pass\n", title, e.Name, e.Offline.Passed, e.Offline.Of)
			title = ""
		}
	}
}
