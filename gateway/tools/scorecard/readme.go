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

// rank sorts SDKs in the order of kinds.
func rank(sdk string) string {
	for i, k := range kinds {
		if k.name == sdk {
			return string(rune('a' + i))
		}
	}
	return "z"
}

// measured is what other people's runs said that cannot be repeated here.
const measured = `
The .NET SDK's own live tests (7.19.0) need .NET, and ` + "`make scorecard`" + ` does not run them. They ran once, in November 2026, against the gateway b897ef9:

| SDK | suite | version | passed |
|---|---|---|---|
| .NET | sender, receiver, message, client | 7.19.0 | 144 of 153 |
| .NET | sessions, session processor | 7.19.0 | 139 of 146 |
| .NET | transactions, rule manager, processor, diagnostics | 7.19.0 | 109 of 118 |
| .NET | administration and the SDK's samples | 7.19.0 | 87 of 102 |
`

// features are the columns of the table of the report.
var features = []string{"send, receive", "sessions", "transactions", "management", "WebSocket", "identity", "emulator's connection string"}

// shows lists the tests that show a feature of an SDK, by suite/test. Tests that show no other
// feature count for sending and receiving.
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
		"identity":   regexp.MustCompile(`Token ?[cC]redential`),
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
	"js":     {"transactions": "not in the SDK", "WebSocket": "`make test`", "emulator's connection string": "`make test`"},
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
	return os.WriteFile(path, slices.Concat(before, []byte(tableBegins), r.summary(), []byte(tableEnds), after), 0o644)
}

// legend explains the table.
const legend = `
A test counts in each column whose feature the name of the test or of its file contains, and otherwise in "send, receive". So a test can count in two columns. The column "passed" counts all tests that need a server, and the tests that skip themselves as skipped. The column "identity" counts the tests of authentication with a token of an identity provider. The other tests of JavaScript and Python also authenticate with such tokens, except the tests of keys and connection strings; the other tests of Go, Java and .NET use a shared key. A cell without a number names the command that tests the feature instead; – means that nothing tests the feature. The row of .NET counts scenarios of this project, not tests of the SDK's authors.
`

// summary is the README's table: a column for each SDK, with how many tests pass on every engine that they ran on.
func (r *record) summary() []byte {
	rows := [3]string{"|", "|---|", "| live tests passed |"}
	for _, k := range kinds {
		of := r.of(k.name)
		if len(of) == 0 {
			continue
		}
		var all tally
		for _, e := range of {
			e.everywhere(map[string]tally{}, &all)
		}
		rows[0] += " | " + titles[k.name]
		rows[1] += "---|"
		rows[2] += fmt.Sprintf(" %d of %d |", all.Passed, all.Of)
	}
	rows[0] += " |"
	return []byte(strings.Join(rows[:], "\n") + "\n")
}

// table writes, for each SDK and feature, how many tests pass on every engine that they ran on.
func (r *record) table() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "| SDK | %s | tested version | passed |\n|---|%s---|---|\n", strings.Join(features, " | "), strings.Repeat("---|", len(features)))
	for _, k := range kinds {
		rows := r.of(k.name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s |", titles[k.name])
		var versions []string
		of := map[string]tally{}
		var all tally
		var skips int
		for _, e := range rows {
			switch {
			case slices.ContainsFunc(versions, func(known string) bool { return strings.HasSuffix(known, e.Version) }):
			case versions == nil:
				versions = append(versions, e.Version)
			default:
				versions = append(versions, e.Name+" "+e.Version)
			}
			skips += e.everywhere(of, &all)
		}
		for _, feature := range features {
			switch why := unshown[k.name][feature]; {
			case of[feature].Of > 0:
				fmt.Fprintf(&b, " %d of %d |", of[feature].Passed, of[feature].Of)
			case why != "":
				fmt.Fprintf(&b, " %s |", why)
			default:
				b.WriteString(" – |")
			}
		}
		fmt.Fprintf(&b, " %s | %d of %d", strings.Join(versions, ", "), all.Passed, all.Of)
		if skips > 0 {
			fmt.Fprintf(&b, ", %d skipped", skips)
		}
		b.WriteString(" |\n")
	}
	b.WriteString(legend)
	return b.Bytes()
}

// everywhere adds a suite's tests to tallies, by feature and in total. A test passes if it passes
// on every engine that it ran on. It returns the number of tests that skip themselves on an engine
// and fail on none.
func (e *entry) everywhere(of map[string]tally, all *tally) (skips int) {
	lost := map[string]bool{} // test → it failed
	var most *score
	for _, engine := range engines {
		s := e.Scores[engine]
		if s == nil {
			continue
		}
		if most == nil || s.Tests > most.Tests {
			most = s
		}
		for test := range s.Failed {
			lost[test] = true
		}
		for test := range s.Skipped {
			if !lost[test] {
				lost[test] = false
			}
		}
	}
	if most == nil {
		return 0
	}
	all.Of += most.Tests
	all.Passed += most.Tests - len(lost)
	for feature, count := range most.Features {
		sum := of[feature]
		sum.Of += count.Of
		sum.Passed += count.Of
		of[feature] = sum
	}
	for test, fails := range lost {
		if !fails {
			skips++
		}
		for _, feature := range featuresOf(e.SDK, e.Name+"/"+test) {
			sum := of[feature]
			sum.Passed--
			of[feature] = sum
		}
	}
	return skips
}
