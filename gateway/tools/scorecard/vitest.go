package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// vitest runs the live tests of the JavaScript SDK. It copies the package from a checkout of the
// SDK's repository, and installs its dependencies from npm in the versions that it requires.
type vitest struct {
	checkout string
}

//go:embed shims/js
var jsShims embed.FS

// wanted are those of the package's development dependencies that tests import. The others are for
// building, for browsers, or not published.
var wanted = []string{"@azure/identity", "chai", "chai-as-promised", "chai-exclude", "debug", "dotenv", "events", "https-proxy-agent", "uuid", "vitest", "ws"}

func (k *vitest) prepare(ctx context.Context, dir string) ([]*suite, error) {
	source := filepath.Join(k.checkout, "sdk", "servicebus", "service-bus")
	var manifest struct {
		Name            string            `json:"name"`
		Version         string            `json:"version"`
		Type            string            `json:"type"`
		Dependencies    map[string]string `json:"dependencies"`
		DevDependencies map[string]string `json:"devDependencies"`
	}
	text, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}
	for _, part := range []string{"src", "test"} {
		if err := copyTree(filepath.Join(dir, part), filepath.Join(source, part)); err != nil {
			return nil, err
		}
	}
	utilities := filepath.Join(k.checkout, "sdk", "test-utils", "test-utils-vitest", "src")
	if err := copyTree(filepath.Join(dir, "test-utils-vitest", "src"), utilities); err != nil {
		return nil, fmt.Errorf("the utilities of the SDK's tests: %w", err)
	}
	shims, err := fs.Sub(jsShims, "shims/js")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(removeIn(dir, shims), os.CopyFS(dir, shims)); err != nil {
		return nil, err
	}
	// Tests look into the SDK's own libraries: take those of their time, with corrections.
	for name, version := range manifest.Dependencies {
		if strings.HasPrefix(name, "@azure/core-") {
			manifest.Dependencies[name] = strings.Replace(version, "^", "~", 1)
		}
	}
	manifest.Dependencies["@opentelemetry/api"] = "^1.9.0" // of the utilities
	for _, name := range wanted {
		if version, ok := manifest.DevDependencies[name]; ok {
			manifest.Dependencies[name] = version
		}
	}
	manifest.DevDependencies = nil
	if text, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644); err != nil {
		return nil, err
	}
	if _, err := output(ctx, dir, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"); err != nil {
		return nil, err
	}
	return []*suite{{
		name:    manifest.Name,
		version: manifest.Version,
		about:   "The sources of the package and of its tests are compiled by vitest, with the configuration of the package's authors. Two tools that the authors do not publish are replaced: the credential, which gets a token from the gateway, and the lookup of environment variables. The tests use the ports of Service Bus in a separate network namespace.",
		dir:     dir,
		gateway: variant{ports: true},
		groups:  byFile(" > ", math.MaxInt), // the tests of a file share entities
	}}, nil
}

// removeIn removes from dir the files that are to be written again.
func removeIn(dir string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if err := os.Remove(filepath.Join(dir, path)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// offlineTests is the folder of tests that need no server.
const offlineTests = "test/internal/unit/"

// list asks vitest, and runs the tests that need no server.
func (k *vitest) list(ctx context.Context, s *suite) error {
	listed := filepath.Join(s.dir, "listed.json")
	cmd := k.command(exec.CommandContext, ctx, s, nil, "list", "--json="+listed)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	text, err := os.ReadFile(listed)
	if err != nil {
		return err
	}
	var tests []struct{ Name, File string }
	if err := json.Unmarshal(text, &tests); err != nil {
		return err
	}
	seen := map[string]int{}
	for _, t := range tests {
		file, err := filepath.Rel(s.dir, t.File)
		if err != nil {
			return err
		}
		if name := nameOf(file, t.Name, seen); !strings.HasPrefix(file, offlineTests) {
			s.tests = append(s.tests, name)
		}
	}
	s.offline = map[string]bool{}
	results, _, err := k.file(exec.CommandContext, ctx, s, nil, offlineTests, nil)
	if err != nil {
		return err
	}
	for name, got := range results {
		s.offline[name] = got.outcome == passed
	}
	return nil
}

// nameOf is a test's name: its file, the names of its groups and its own, and a number if it is not
// the first of this name.
func nameOf(file, name string, seen map[string]int) string {
	name = file + " > " + name
	if seen[name]++; seen[name] > 1 {
		name += " (" + strconv.Itoa(seen[name]) + ")"
	}
	return name
}

// run runs tests of one file.
func (k *vitest) run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(string, result)) {
	env := append(g.environment(), "NODE_EXTRA_CA_CERTS="+g.ca, "SERVICEBUS_FQDN="+g.host, "SERVICEBUS_FQDN_PREMIUM="+g.host)
	file, _, _ := strings.Cut(tests[0], " > ")
	results, printed, err := k.file(g.command, ctx, s, env, file, tests)
	for _, test := range tests {
		got, ok := results[test]
		if !ok {
			got = result{outcome: failed, printed: fmt.Sprintf("%v\n%s", err, printed)}
		}
		ended(test, got)
	}
}

// starter is exec.CommandContext, here or elsewhere.
type starter func(ctx context.Context, name string, args ...string) *exec.Cmd

func (k *vitest) command(start starter, ctx context.Context, s *suite, env []string, args ...string) *exec.Cmd {
	cmd := start(ctx, "node", append([]string{filepath.Join("node_modules", "vitest", "vitest.mjs")}, args...)...)
	cmd.Dir = s.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its workers
	if cmd.Env = env; env == nil {
		cmd.Env = append(inherited(), "SERVICEBUS_FQDN=localhost", "SERVICEBUS_CONNECTION_STRING=Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b")
	}
	return cmd
}

// file runs the tests of a file or folder, those that are named or all.
func (k *vitest) file(start starter, ctx context.Context, s *suite, env []string, file string, tests []string) (map[string]result, string, error) {
	folder, err := os.MkdirTemp(s.dir, "results-")
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	out := filepath.Join(folder, "results.json")
	args := []string{"run", "--reporter=json", "--outputFile=" + out, file}
	if len(tests) > 0 {
		args = append(args, "--testNamePattern="+patternOf(tests))
	}
	cmd := k.command(start, ctx, s, env, args...)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	_ = cmd.Run() // it fails when a test does
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, printed.String(), err
	}
	results, err := parseVitest(text, s.dir)
	return results, printed.String(), err
}

// patternOf matches the names of tests as vitest writes them: with a space between
// titles, of which some contain " > " themselves.
func patternOf(tests []string) string {
	var names []string
	for _, test := range tests {
		_, name, _ := strings.Cut(test, " > ")
		name = regexp.MustCompile(` \(\d+\)$`).ReplaceAllString(name, "")
		names = append(names, strings.ReplaceAll(regexp.QuoteMeta(name), " > ", " (?:> )?"))
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// parseVitest reads what vitest's JSON reporter writes.
func parseVitest(text []byte, dir string) (map[string]result, error) {
	var report struct {
		TestResults []struct {
			Name             string
			Message          string
			AssertionResults []struct {
				AncestorTitles  []string
				Title, Status   string
				FailureMessages []string
			}
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	results := map[string]result{}
	for _, file := range report.TestResults {
		path, err := filepath.Rel(dir, file.Name)
		if err != nil {
			return nil, err
		}
		seen := map[string]int{}
		for _, test := range file.AssertionResults {
			titles := slices.DeleteFunc(append(test.AncestorTitles, test.Title), func(title string) bool { return title == "" })
			got := result{outcome: failed, printed: strings.Join(append(test.FailureMessages, file.Message), "\n")}
			name := nameOf(path, strings.Join(titles, " > "), seen)
			switch test.Status {
			case "passed":
				got.outcome = passed
			case "skipped", "pending", "todo", "disabled":
				got.outcome = skipped
			}
			results[name] = got
		}
	}
	return results, nil
}
