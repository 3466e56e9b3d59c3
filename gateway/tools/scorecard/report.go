package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const preface = `# Scorecard

Other people's live tests, run against Crosstown by ` + "`make scorecard`" + `, which writes this file: those that the official SDKs for Azure Service Bus run against Azure, and those that the AMQP library go-amqp runs against Microsoft's test broker.

The tests run as they are, against a gateway with a development certificate. What they demand of Azure is fitted around them: credentials, the making of entities, and the tools of the SDKs' own repositories, of which some are not published. The SDKs' identity-based clients get their tokens from the gateway's ` + "`--dev-identity`" + ` endpoint. A test that fails is run once more after the others, alone, and listed if it passes then. Suites that were not named keep what came out when they last ran, and the column "gateway" says of which version that was.

Counted are the tests that need a server. A test passes when all of its subtests do; one of which a subtest skips itself is listed as skipped.

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
		return "it says: " + got.Why
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
	title := "\n## Tests that need no server\n\nThey say nothing about Crosstown and are not counted above.\n\n"
	for _, e := range r.Suites {
		if e.Offline.Of > 0 {
			fmt.Fprintf(b, "%s- %s: %d of %d pass\n", title, e.Name, e.Offline.Passed, e.Offline.Of)
			title = ""
		}
	}
}
