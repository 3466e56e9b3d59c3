package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// record has the results of suites in this run and in earlier ones. It is stored in results.json,
// from which the scorecard and the README's table are written.
type record struct {
	Suites []*entry `json:"suites"`
}

// entry is a suite's row.
type entry struct {
	SDK     string            `json:"sdk"`
	Name    string            `json:"name"`
	Version string            `json:"version"`
	About   string            `json:"about,omitempty"`
	Offline tally             `json:"offline"`
	Scores  map[string]*score `json:"scores"` // by engine: memory, file, redis
}

// score is what came out on one engine.
type score struct {
	Store    string           `json:"store"`    // the engine, with its version
	Gateway  string           `json:"gateway"`  // its version
	Tests    int              `json:"tests"`    // that need a server
	Failed   map[string]told  `json:"failed"`   // by test
	Skipped  map[string]told  `json:"skipped"`  // by test
	Again    []string         `json:"again"`    // tests that passed at the second attempt only
	Features map[string]tally `json:"features"` // by feature of the README's table
}

// tally counts tests.
type tally struct {
	Passed int `json:"passed"`
	Of     int `json:"of"`
}

// told is what is kept of a test that did not pass.
type told struct {
	Parts []string `json:"parts,omitempty"`
	Why   string   `json:"why,omitempty"`
}

func (s *score) passed() int { return s.Tests - len(s.Failed) - len(s.Skipped) }

// newScore sums results up.
func newScore(s *suite, g *gateway, tests []string, results map[string]result) *score {
	sum := &score{Store: g.about, Gateway: g.version, Tests: len(tests), Failed: map[string]told{}, Skipped: map[string]told{}, Features: map[string]tally{}}
	for _, test := range tests {
		got := results[test]
		switch got.outcome {
		case passed:
			if got.again {
				sum.Again = append(sum.Again, test)
			}
		case skipped:
			sum.Skipped[test] = told{got.parts, got.why}
		default:
			sum.Failed[test] = told{Parts: got.parts}
		}
		for _, feature := range featuresOf(s.sdk, s.name+"/"+test) {
			count := sum.Features[feature]
			count.Of++
			if got.outcome == passed {
				count.Passed++
			}
			sum.Features[feature] = count
		}
	}
	return sum
}

// readRecord reads what earlier runs left; there may be none.
func readRecord(path string) (*record, error) {
	var r record
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &r, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, json.Unmarshal(data, &r)
}

func (r *record) write(path string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// put replaces the results of a suite on an engine, and removes those of another version of the
// suite.
func (r *record) put(s *suite, engine string, sum *score) {
	row := &entry{SDK: s.sdk, Name: s.name, Scores: map[string]*score{}}
	i := slices.IndexFunc(r.Suites, func(e *entry) bool { return e.SDK == s.sdk && e.Name == s.name })
	switch {
	case i < 0:
		r.Suites = append(r.Suites, row)
	case r.Suites[i].Version != s.version:
		r.Suites[i] = row
	default:
		row = r.Suites[i]
	}
	row.Version, row.About, row.Offline = s.version, s.about, tally{}
	for _, ok := range s.offline {
		row.Offline.Of++
		if ok {
			row.Offline.Passed++
		}
	}
	row.Scores[engine] = sum
	slices.SortStableFunc(r.Suites, func(a, b *entry) int {
		return strings.Compare(rank(a.SDK)+a.Name, rank(b.SDK)+b.Name)
	})
}

// merge replaces the recorded results of some tests of a suite.
func (r *record) merge(s *suite, engine string, tests []string, sum *score) error {
	i := slices.IndexFunc(r.Suites, func(e *entry) bool { return e.SDK == s.sdk && e.Name == s.name && e.Version == s.version })
	if i < 0 || r.Suites[i].Scores[engine] == nil {
		return fmt.Errorf("%s %s has no results on %s that can be amended: run all of it", s.name, s.version, engine)
	}
	known := r.Suites[i].Scores[engine]
	for _, test := range tests {
		delete(known.Failed, test)
		delete(known.Skipped, test)
		known.Again = slices.DeleteFunc(known.Again, func(other string) bool { return other == test })
	}
	maps.Copy(known.Failed, sum.Failed)
	maps.Copy(known.Skipped, sum.Skipped)
	known.Again = append(known.Again, sum.Again...)
	if known.Gateway != sum.Gateway {
		known.Gateway += fmt.Sprintf(" (%d tests: %s)", len(tests), sum.Gateway)
	}
	for feature, count := range known.Features {
		known.Features[feature] = tally{count.Of, count.Of}
	}
	for _, lost := range []map[string]told{known.Failed, known.Skipped} {
		for test := range lost {
			for _, feature := range featuresOf(s.sdk, s.name+"/"+test) {
				count := known.Features[feature]
				known.Features[feature] = tally{count.Passed - 1, count.Of}
			}
		}
	}
	return nil
}
