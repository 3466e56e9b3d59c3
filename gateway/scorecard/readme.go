package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// titles are the SDKs' names in reports.
var titles = map[string]string{"go": "Go", "js": "JavaScript", "python": "Python", "java": "Java", "dotnet": ".NET"}

// place sorts SDKs as kinds has them.
func place(sdk string) string {
	for i, k := range kinds {
		if k.name == sdk {
			return string(rune('a' + i))
		}
	}
	return "z"
}

// measured is what other people's runs said that cannot be repeated here.
const measured = `
The .NET SDK's own live tests (7.19.0) need .NET and are not run by ` + "`make scorecard`" + `. Measured on b897ef9, November 2026, not run since:

| SDK | suite | version | passed |
|---|---|---|---|
| .NET | sender, receiver, message, client | 7.19.0 | 144 of 153 |
| .NET | sessions, session processor | 7.19.0 | 139 of 146 |
| .NET | transactions, rule manager, processor, diagnostics | 7.19.0 | 109 of 118 |
| .NET | administration and the SDK's samples | 7.19.0 | 87 of 102 |
`

// features are the columns of the README's table.
var features = []string{"send, receive", "sessions", "transactions", "management", "WebSocket", "identity", "emulator's connection string"}

// shows says which tests show a feature of an SDK, by suite/test. What shows no
// other is taken for sending and receiving.
var shows = map[string]map[string]*regexp.Regexp{
	"java": {
		"sessions":     regexp.MustCompile(`SessionManager|SessionLock|SessionState|sessionReceiver|acceptSession`),
		"transactions": regexp.MustCompile(`(?i)transaction`),
		"management":   regexp.MustCompile(`/administration\.`),
		"identity":     regexp.MustCompile(`(?i)credential`),
	},
	"go": {
		"sessions":   regexp.MustCompile(`(?i)session`),
		"management": regexp.MustCompile(`^azservicebus/admin/`),
		"WebSocket":  regexp.MustCompile(`(?i)websocket`),
		"identity":   regexp.MustCompile(`(?i)identity|tokencredential|AzureAuth`),
	},
	"js": {
		"sessions":   regexp.MustCompile(`(?i)session`),
		"management": regexp.MustCompile(`atomManagement|atomE2E|operationOptionsForATOM|ruleManager`),
		"WebSocket":  regexp.MustCompile(`(?i)websocket`),
		"identity":   regexp.MustCompile(`Token credential`),
	},
	"python": {
		"sessions":   regexp.MustCompile(`(?i)session`),
		"management": regexp.MustCompile(`^azure-servicebus\.management`),
		"WebSocket":  regexp.MustCompile(`(?i)websocket|\bws\b`),
		"identity":   regexp.MustCompile(`test_client_credential`),
	},
	"dotnet": {
		"sessions":     regexp.MustCompile(`session`),
		"transactions": regexp.MustCompile(`transaction`),
		"management":   regexp.MustCompile(`^scenarios/(names that|a delivery count|authorization rules|accessed|a topic's size|auto-delete|a date in a filter|rule manager)`),
	},
}

// unshown says why an SDK's tests show nothing of a feature.
var unshown = map[string]map[string]string{
	"go":     {"transactions": "not in the SDK", "emulator's connection string": "`make test`"},
	"js":     {"transactions": "not in the SDK", "emulator's connection string": "`make test`"},
	"python": {"transactions": "not in the SDK", "emulator's connection string": "`make test`"},
	"java":   {"WebSocket": "`make interop`", "emulator's connection string": "`make interop`"},
}

// featuresOf returns the features that a test shows.
func featuresOf(sdk, test string) []string {
	var all []string
	for feature, pattern := range shows[sdk] {
		if pattern.MatchString(test) {
			all = append(all, feature)
		}
	}
	if len(all) == 0 {
		all = append(all, features[0])
	}
	return all
}

const (
	tableBegins = "<!-- scorecard begins -->\n"
	tableEnds   = "<!-- scorecard ends -->\n"
)

// writeTable replaces the table between the markers of a file.
func (r *record) writeTable(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(tableBegins))
	_, after, ends := bytes.Cut(rest, []byte(tableEnds))
	if !ok || !ends {
		return fmt.Errorf("%s has no place for the table: %s%s", path, tableBegins, tableEnds)
	}
	return os.WriteFile(path, slices.Concat(before, []byte(tableBegins), r.table(), []byte(tableEnds), after), 0o644)
}

// table writes what each SDK's tests show of each feature: how many pass on every
// engine that they ran on.
func (r *record) table() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "| SDK | %s | tested version | passed |\n|---|%s---|---|\n", strings.Join(features, " | "), strings.Repeat("---|", len(features)))
	for _, k := range kinds {
		rows := r.of(k.name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s |", titles[k.name])
		for _, feature := range features {
			least, ran := r.least(k.name, func(s *score) tally { return s.Features[feature] })
			switch why := unshown[k.name][feature]; {
			case ran && least.Of > 0:
				fmt.Fprintf(&b, " %d of %d |", least.Passed, least.Of)
			case why != "":
				fmt.Fprintf(&b, " %s |", why)
			default:
				b.WriteString(" – |")
			}
		}
		all, _ := r.least(k.name, func(s *score) tally { return tally{s.passed(), s.Tests} })
		var versions []string
		for _, e := range rows {
			if !slices.Contains(versions, e.Version) {
				versions = append(versions, e.Version)
			}
		}
		fmt.Fprintf(&b, " %s | %d of %d |\n", strings.Join(versions, ", "), all.Passed, all.Of)
	}
	return b.Bytes()
}

// least sums up what suites of an SDK have on the engine where fewest pass.
func (r *record) least(sdk string, of func(*score) tally) (sum tally, ran bool) {
	for _, e := range r.of(sdk) {
		var least *tally
		for _, s := range e.Scores {
			if got := of(s); least == nil || got.Passed < least.Passed {
				least = &got
			}
		}
		if least != nil {
			sum.Passed += least.Passed
			sum.Of += least.Of
			ran = true
		}
	}
	return sum, ran
}
